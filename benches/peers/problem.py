"""The problem grammar, the same as the project's: ``fwd bf16 b2 s4096x1024 h32/8 d128 causal`` and
``gemm bf16 m4096 n4096 k512 nt``."""

import re
from dataclasses import dataclass

DTYPES = ("bf16", "f16")
ELEM_BYTES = 2
GRAMMAR = "fwd DTYPE bN sQ[xKV] hQ[/KV] dD full|causal  or  gemm DTYPE mM nN kK nn|nt|tn|tt"

_FORWARD = re.compile(
    r"fwd (?P<dtype>\w+) b(?P<batch>\d+) s(?P<q_len>\d+)(?:x(?P<kv_len>\d+))? "
    r"h(?P<heads>\d+)(?:/(?P<kv_heads>\d+))? d(?P<head_dim>\d+) (?P<mask>full|causal)"
)
_GEMM = re.compile(r"gemm (?P<dtype>\w+) m(?P<m>\d+) n(?P<n>\d+) k(?P<k>\d+) (?P<layout>[nt][nt])")


class ProblemError(ValueError):
    """A text outside the grammar, or a shape that cannot be."""


@dataclass(frozen=True)
class Forward:
    """Attention forward. Q and O [batch, q_len, heads, head_dim]; K and V [batch, kv_len, kv_heads, head_dim];
    LSE [batch, heads, q_len] in f32."""

    dtype: str
    batch: int
    q_len: int
    kv_len: int
    heads: int
    kv_heads: int
    head_dim: int
    mask: str

    kind = "fwd"
    output = "o"

    def __str__(self):
        kv_len = "" if self.kv_len == self.q_len else f"x{self.kv_len}"
        kv_heads = "" if self.kv_heads == self.heads else f"/{self.kv_heads}"
        return f"fwd {self.dtype} b{self.batch} s{self.q_len}{kv_len} h{self.heads}{kv_heads} d{self.head_dim} {self.mask}"

    @property
    def is_causal(self):
        return self.mask == "causal"

    def visible_pairs(self):
        """(query, key) pairs of one head that the mask lets through; causal masks are aligned bottom right."""
        if not self.is_causal:
            return self.q_len * self.kv_len
        seeing = min(self.q_len, self.kv_len)
        first_sees = self.kv_len - seeing + 1
        return seeing * (first_sees + self.kv_len) // 2

    def flops(self):
        """Useful FLOPs: masked pairs do not count."""
        pairs = self.batch * self.heads * self.visible_pairs()
        qk_flops = 2 * self.head_dim * pairs
        pv_flops = 2 * self.head_dim * pairs
        return qk_flops + pv_flops

    def shapes(self):
        """Inputs and outputs by name: (shape, is_input)."""
        query = (self.batch, self.q_len, self.heads, self.head_dim)
        key = (self.batch, self.kv_len, self.kv_heads, self.head_dim)
        lse = (self.batch, self.heads, self.q_len)
        return {"q": (query, True), "k": (key, True), "v": (key, True), "o": (query, False), "lse": (lse, False)}

    def names(self):
        """Runtime names a launch recipe may use."""
        scale = self.head_dim**-0.5
        return {
            "batch": self.batch,
            "q_len": self.q_len,
            "kv_len": self.kv_len,
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "group": self.heads // self.kv_heads,
            "head_dim": self.head_dim,
            "scale": scale,
            "scale_log2": scale * 1.4426950408889634,
        }


@dataclass(frozen=True)
class Gemm:
    """C[m, n] = op(A) op(B); `t` means that an operand is stored transposed."""

    dtype: str
    m: int
    n: int
    k: int
    layout: str

    kind = "gemm"
    output = "c"

    def __str__(self):
        return f"gemm {self.dtype} m{self.m} n{self.n} k{self.k} {self.layout}"

    def flops(self):
        return 2 * self.m * self.n * self.k

    def shapes(self):
        a = (self.k, self.m) if self.layout[0] == "t" else (self.m, self.k)
        b = (self.n, self.k) if self.layout[1] == "t" else (self.k, self.n)
        return {"a": (a, True), "b": (b, True), "c": ((self.m, self.n), False)}

    def names(self):
        return {"m": self.m, "n": self.n, "k": self.k}


def parse(text):
    """The problem a text names."""
    words = " ".join(text.split())
    for pattern, build in ((_FORWARD, _forward), (_GEMM, _gemm)):
        match = pattern.fullmatch(words)
        if match:
            return build(match.groupdict())
    raise ProblemError(f"'{text}' is no problem; the grammar is: {GRAMMAR}")


def set_bytes(problem):
    """Bytes of one set of inputs and 16-bit outputs: what one launch touches."""
    sizes = 0
    for name, (shape, _) in problem.shapes().items():
        elems = 1
        for extent in shape:
            elems *= extent
        sizes += elems * (4 if name == "lse" else ELEM_BYTES)
    return sizes


def _forward(found):
    found["kv_len"] = found["kv_len"] or found["q_len"]
    found["kv_heads"] = found["kv_heads"] or found["heads"]
    problem = Forward(**_numbers(found))
    if problem.heads % problem.kv_heads:
        raise ProblemError(f"{problem.heads} heads are no multiple of {problem.kv_heads} kv heads")
    return problem


def _gemm(found):
    return Gemm(**_numbers(found))


def _numbers(found):
    if found["dtype"] not in DTYPES:
        raise ProblemError(f"dtype '{found['dtype']}' is not one of {', '.join(DTYPES)}")
    fields = {name: int(value) if value.isdigit() else value for name, value in found.items()}
    for name, value in fields.items():
        if value == 0:
            raise ProblemError(f"{name} is 0")
    return fields
