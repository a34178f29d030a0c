//! A serde deserializer over parsed TOML that keeps path, place and the known words of each fault.

use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::error::Fault;

/// A fault on its way out; each level adds its key to the path.
#[derive(Debug)]
pub(super) struct NodeError {
    pub path: Vec<String>,
    /// Byte offset into the text.
    pub at: Option<usize>,
    pub kind: Fault,
}

impl NodeError {
    fn new(kind: Fault) -> Self {
        Self {
            path: vec![],
            at: None,
            kind,
        }
    }

    fn within(mut self, key: &str, offset: usize) -> Self {
        self.path.insert(0, key.to_owned());
        self.at.get_or_insert(offset);
        self
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}
impl std::error::Error for NodeError {}

/// A number type of Rust as what a reader of a schedule may write.
fn in_words(expected: &str) -> String {
    match expected {
        "u32" => "a whole number, 0 to 4294967295".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        other => other.to_owned(),
    }
}

impl de::Error for NodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(Fault::Other {
            message: message.to_string(),
        })
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(Fault::WrongType {
            found: found.to_string(),
            expected: in_words(&expected.to_string()),
        })
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(found: &str, allowed: &'static [&'static str]) -> Self {
        Self::new(Fault::UnknownChoice {
            found: found.to_owned(),
            allowed: owned(allowed),
        })
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        Self::new(Fault::UnknownKey {
            key: key.to_owned(),
            known: owned(known),
        })
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

/// One TOML value.
#[derive(Clone, Copy)]
pub(super) enum Node<'a> {
    Value(&'a DeValue<'a>),
    Table(&'a DeTable<'a>),
}

impl<'a> Node<'a> {
    pub fn root(table: &'a DeTable<'a>) -> Self {
        Node::Table(table)
    }
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = NodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        let value = match self {
            Node::Table(table) | Node::Value(DeValue::Table(table)) => {
                return visitor.visit_map(Entries {
                    rest: table.iter(),
                    current: None,
                });
            }
            Node::Value(value) => value,
        };
        match value {
            DeValue::String(s) => visitor.visit_borrowed_str(s),
            DeValue::Boolean(b) => visitor.visit_bool(*b),
            DeValue::Integer(i) => match i64::from_str_radix(i.as_str(), i.radix()) {
                Ok(i) => visitor.visit_i64(i),
                Err(_) => Err(NodeError::invalid_value(
                    Unexpected::Other("an integer beyond 64 bits"),
                    &visitor,
                )),
            },
            DeValue::Float(x) => match x.as_str().parse() {
                Ok(x) => visitor.visit_f64(x),
                Err(_) => Err(NodeError::invalid_value(Unexpected::Other("an odd float"), &visitor)),
            },
            DeValue::Datetime(_) => Err(NodeError::invalid_type(Unexpected::Other("a date or time"), &visitor)),
            DeValue::Array(items) => visitor.visit_seq(Items {
                rest: items.iter().enumerate(),
            }),
            DeValue::Table(_) => Err(NodeError::invalid_type(Unexpected::Map, &visitor)),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        // Straight to f32: a detour by f64 would round twice.
        match self {
            Node::Value(DeValue::Float(x)) => match x.as_str().parse::<f32>() {
                Ok(x) => visitor.visit_f32(x),
                Err(_) => Err(NodeError::invalid_value(Unexpected::Other("an odd float"), &visitor)),
            },
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        // TOML has no null: what is there is there.
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        match self {
            Node::Value(DeValue::String(s)) => visitor.visit_enum(Choice(s)),
            other => other.deserialize_any(visitor),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

type Key<'de> = Spanned<DeString<'de>>;
type Held<'de> = Spanned<DeValue<'de>>;

struct Entries<'de, I> {
    rest: I,
    current: Option<(&'de Key<'de>, &'de Held<'de>)>,
}

impl<'de, I: Iterator<Item = (&'de Key<'de>, &'de Held<'de>)>> MapAccess<'de> for Entries<'de, I> {
    type Error = NodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, NodeError> {
        self.current = self.rest.next();
        let Some((key, _)) = self.current else { return Ok(None) };
        let name = BorrowedStrDeserializer::new(key.get_ref());
        seed.deserialize(name)
            .map(Some)
            .map_err(|e: NodeError| e.within(key.get_ref(), key.span().start))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, NodeError> {
        let Some((key, value)) = self.current else {
            return Err(NodeError::custom("a value was asked for before its key"));
        };
        let fault = |e: NodeError| e.within(key.get_ref(), value.span().start);
        seed.deserialize(Node::Value(value.get_ref())).map_err(fault)
    }
}

struct Items<I> {
    rest: I,
}

impl<'de, I: Iterator<Item = (usize, &'de Held<'de>)>> SeqAccess<'de> for Items<I> {
    type Error = NodeError;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, NodeError> {
        let Some((i, item)) = self.rest.next() else {
            return Ok(None);
        };
        let fault = |e: NodeError| e.within(&i.to_string(), item.span().start);
        seed.deserialize(Node::Value(item.get_ref())).map(Some).map_err(fault)
    }
}

/// A choice written as a string.
struct Choice<'de>(&'de str);

impl<'de> EnumAccess<'de> for Choice<'de> {
    type Error = NodeError;
    type Variant = Bare;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Bare), NodeError> {
        let name: BorrowedStrDeserializer<'de, NodeError> = BorrowedStrDeserializer::new(self.0);
        seed.deserialize(name).map(|choice| (choice, Bare))
    }
}

/// The rest of a choice: nothing.
struct Bare;

impl<'de> VariantAccess<'de> for Bare {
    type Error = NodeError;

    fn unit_variant(self) -> Result<(), NodeError> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, _: S) -> Result<S::Value, NodeError> {
        Err(NodeError::custom("this choice carries a value, which is not supported"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, NodeError> {
        Err(NodeError::custom("this choice carries values, which is not supported"))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, NodeError> {
        Err(NodeError::custom("this choice carries fields, which is not supported"))
    }
}
