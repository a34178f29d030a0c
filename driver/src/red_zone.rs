//! Red zones: bytes of a known pattern before and after a buffer that nothing may write.
//!
//! This file is arithmetic alone; `memory.rs` allocates and reads. The zone after the buffer starts right
//! at its last byte, so that a write one element too far is seen.

use serde::Serialize;

/// The byte every red zone is filled with. As bf16, f16 or f32 it is a small finite number, which no
/// poison pattern and no zero fill can be taken for.
pub const PATTERN: u8 = 0xa5;
/// The alignment of the user's range: the strictest that a swizzled tile or a tensor map asks for.
pub const USER_ALIGN_BYTES: u64 = 1024;
/// The size of each zone unless the caller chooses.
pub const DEFAULT_ZONE_BYTES: u64 = 64 * 1024;

/// How an allocation is divided: `[front zone][user range][back zone]`, offsets from its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// The user's bytes.
    pub len_bytes: u64,
    /// Bytes of each zone asked for.
    pub zone_bytes: u64,
    /// Bytes to allocate.
    pub alloc_bytes: u64,
}

/// Why a layout cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overflow;

impl Layout {
    /// Room for `len_bytes` and two zones, wherever the allocation lands.
    pub(crate) fn plan(len_bytes: u64, zone_bytes: u64) -> Result<Self, Overflow> {
        // The address may be anything: up to USER_ALIGN_BYTES - 1 bytes go to alignment.
        let alloc_bytes = zone_bytes
            .checked_mul(2)
            .and_then(|zones| zones.checked_add(len_bytes))
            .and_then(|sum| sum.checked_add(USER_ALIGN_BYTES))
            .filter(|sum| i64::try_from(*sum).is_ok())
            .ok_or(Overflow)?;
        Ok(Self {
            len_bytes,
            zone_bytes,
            alloc_bytes,
        })
    }

    /// Where the user's range starts in an allocation at `base`.
    pub(crate) fn user_offset(&self, base: u64) -> u64 {
        let first = base.wrapping_add(self.zone_bytes);
        let pad = first.wrapping_neg() % USER_ALIGN_BYTES;
        self.zone_bytes + pad
    }

    /// `(offset, bytes)` of the front and back zones. Without zones both are empty: the padding is not
    /// watched then.
    pub(crate) fn zones(&self, base: u64) -> [(u64, u64); 2] {
        if self.zone_bytes == 0 {
            return [(0, 0); 2];
        }
        let user = self.user_offset(base);
        let back = user + self.len_bytes;
        [(0, user), (back, self.alloc_bytes - back)]
    }
}

/// Which zone was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Below the buffer.
    Before,
    /// Above the buffer.
    After,
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Before => "before",
            Self::After => "after",
        })
    }
}

/// A write outside a buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error(
    "{changed_bytes} bytes {side} the buffer of {len_bytes} bytes were written, the nearest {distance_bytes} \
     bytes away (found {found:#04x}, expected {PATTERN:#04x}): the kernel writes out of bounds"
)]
pub struct RedZoneBreach {
    /// Which side.
    pub side: Side,
    /// The buffer's size.
    pub len_bytes: u64,
    /// How many bytes changed on that side.
    pub changed_bytes: u64,
    /// Distance of the nearest changed byte from the buffer; 0 is its direct neighbour.
    pub distance_bytes: u64,
    /// That byte's value.
    pub found: u8,
}

/// Looks for changed bytes in a zone's contents.
pub(crate) fn inspect(side: Side, zone: &[u8], len_bytes: u64) -> Result<(), RedZoneBreach> {
    let changed = |(_, byte): &(usize, &u8)| **byte != PATTERN;
    let mut all = zone.iter().enumerate().filter(changed);
    let nearest = match side {
        Side::Before => all.clone().next_back(),
        Side::After => all.clone().next(),
    };
    let Some((at, found)) = nearest else {
        return Ok(());
    };
    let distance = match side {
        Side::Before => zone.len() - 1 - at,
        Side::After => at,
    };
    Err(RedZoneBreach {
        side,
        len_bytes,
        changed_bytes: all.by_ref().count() as u64,
        distance_bytes: distance as u64,
        found: *found,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_untouched_zone_passes() {
        assert_eq!(inspect(Side::Before, &[PATTERN; 64], 8), Ok(()));
        assert_eq!(inspect(Side::After, &[], 8), Ok(()));
    }

    #[test]
    fn the_nearest_byte_is_reported_on_both_sides() {
        let mut zone = [PATTERN; 64];
        zone[10] = 1;
        zone[60] = 2;
        let before = inspect(Side::Before, &zone, 8).unwrap_err();
        assert_eq!((before.distance_bytes, before.found, before.changed_bytes), (3, 2, 2));
        let after = inspect(Side::After, &zone, 8).unwrap_err();
        assert_eq!((after.distance_bytes, after.found, after.changed_bytes), (10, 1, 2));
        assert!(after.to_string().contains("10 bytes away (found 0x01"));
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert!(Layout::plan(u64::MAX, 0).is_err());
        assert!(Layout::plan(0, u64::MAX / 2 + 1).is_err());
        assert!(Layout::plan(i64::MAX as u64, 0).is_err());
    }

    #[test]
    fn without_zones_nothing_is_watched() {
        let layout = Layout::plan(100, 0).unwrap();
        assert_eq!(layout.zones(512), [(0, 0), (0, 0)]);
        assert_eq!(layout.user_offset(512), 512);
        assert_eq!(layout.user_offset(1024), 0);
    }

    proptest! {
        #[test]
        fn the_parts_tile_the_allocation(
            base in 0_u64..1 << 48, len in 0_u64..1 << 40, zone in 1_u64..1 << 20,
        ) {
            let layout = Layout::plan(len, zone).unwrap();
            let user = layout.user_offset(base);
            let [front, back] = layout.zones(base);
            prop_assert_eq!((base + user) % USER_ALIGN_BYTES, 0);
            prop_assert_eq!(front, (0, user));
            prop_assert_eq!(back.0, user + len);
            prop_assert_eq!(back.0 + back.1, layout.alloc_bytes);
            prop_assert!(front.1 >= zone && back.1 >= zone);
        }
    }
}
