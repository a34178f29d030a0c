"""Loads cubins with their launch facts and launches them. The only module that knows the format of `launch.json`.

`launch.json`, version 3, is what `warpwright compile --emit launch` writes; it stands beside one `.cubin`::

    {"version": 3, "entry": "attention_forward", "target": "sm_90a", "block": [384, 1, 1], "shared_bytes": 196720,
     "grid": {"kind": "persistent", "blocks": ["ceil_div(q_len, 128)", "heads", "batch"]},
     "runtime": ["batch", "q_len", ...],
     "tensors": [{"name": "q", "dtype": "bf16", "dims": ["batch", "q_len", "heads", "128"], "written": false,
                  "row_multiple_elems": 1, "align_bytes": 16}, ...],
     "params": [
       {"kind": "tensor_map", "name": "q_map", "tensor": "q", "box": [1, 64, 1, 64], "swizzle": 128, "l2_promotion": 128},
       {"kind": "pointer", "name": "o_ptr", "tensor": "o"},
       {"kind": "stride", "name": "o_stride1", "tensor": "o", "dim": 1},
       {"kind": "size", "name": "q_len"}, {"kind": "scalar", "name": "scale_log2", "positive": true},
       {"kind": "scratch", "name": "scratch", "bytes": 8, "initial": 0}]}

Dimensions, boxes and strides are outermost first. The last dimension of a tensor is a multiple of its
`row_multiple_elems`: the copy engine writes whole 16-byte pieces, and would write behind other rows. Base and strides are multiples
of `align_bytes`.

The grid has one dimension: the product of `blocks`, or for `persistent` at most one CTA per multiprocessor. Scratch holds `initial` (a u32 pattern) before the first launch and every
launch leaves it so; it is set once, outside every timed span.

`when.json` beside it (optional) says which problems the kernel is for: fields of the problem with their values, and
`min_FIELD` or `max_FIELD` with bounds: `{"kind": "fwd", "head_dim": 128, "mask": "causal", "min_q_len": 8192}`.

The upper half is pure; the lower half needs the CUDA driver and speaks to it through ctypes.
"""

import ctypes
import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from expr import evaluate

VERSION = 3
LARGEST = 2**30
REQUIRED_KEYS = {"version", "entry", "target", "block", "shared_bytes", "grid", "runtime", "tensors", "params"}
TENSOR_KEYS = {"name", "dtype", "dims", "written", "row_multiple_elems", "align_bytes"}
PARAM_KEYS = {
    "tensor_map": {"name", "tensor", "box", "swizzle", "l2_promotion"},
    "pointer": {"name", "tensor"},
    "stride": {"name", "tensor", "dim"},
    "size": {"name"},
    "scalar": {"name"},
    "scratch": {"name", "bytes", "initial"},
}

# CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapL2promotion of cuda.h.
MAP_DTYPES = {"f16": 6, "f32": 7, "bf16": 9}
MAP_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
MAP_L2_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}
MAP_BYTES = 128
# CUfunction_attribute of cuda.h.
MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class RecipeError(ValueError):
    """Launch facts that say too little, something impossible, or something about other tensors."""


@dataclass(frozen=True)
class TensorView:
    """What launch facts need to know of a tensor. `shape` and `strides` (in elements) are outermost first."""

    pointer: int
    shape: tuple
    strides: tuple
    dtype: str
    elem_bytes: int


@dataclass(frozen=True)
class MapSpec:
    """Arguments of cuTensorMapEncodeTiled, innermost dimension first; strides in bytes, without the innermost."""

    pointer: int
    dtype: int
    dims: tuple
    strides_bytes: tuple
    box: tuple
    swizzle: int
    l2_promotion: int


@dataclass
class Recipe:
    """A parsed launch.json with what stands beside it."""

    entry: str
    target: str
    block: tuple
    shared_bytes: int
    grid: dict
    tensors: list
    params: list
    when: dict = field(default_factory=dict)
    cubin: Path = None

    @property
    def name(self):
        """The folder it came from, or its entry."""
        return self.cubin.parent.name if self.cubin else self.entry


def parse_recipe(data, when=None, source="launch.json"):
    """A recipe from decoded JSON."""
    if data.get("version") != VERSION:
        raise RecipeError(f"{source}: version {data.get('version')}, only {VERSION} is known")
    if missing := REQUIRED_KEYS - set(data):
        raise RecipeError(f"{source}: missing keys {sorted(missing)}")
    grid = data["grid"]
    if grid.get("kind") not in ("persistent", "blocks") or not grid.get("blocks"):
        raise RecipeError(f"{source}: grid needs kind persistent|blocks and a list of blocks, not {grid}")
    if len(data["block"]) != 3:
        raise RecipeError(f"{source}: block has {len(data['block'])} extents, not 3")
    for tensor in data["tensors"]:
        if missing := TENSOR_KEYS - set(tensor):
            raise RecipeError(f"{source}: tensor {tensor.get('name')} lacks {sorted(missing)}")
    for param in data["params"]:
        wanted = PARAM_KEYS.get(param.get("kind"))
        if wanted is None:
            raise RecipeError(f"{source}: parameter {param.get('name')} has unknown kind '{param.get('kind')}'")
        if missing := wanted - set(param):
            raise RecipeError(f"{source}: parameter {param.get('name')} lacks {sorted(missing)}")
    return Recipe(
        entry=data["entry"],
        target=data["target"],
        block=tuple(data["block"]),
        shared_bytes=data["shared_bytes"],
        grid=grid,
        tensors=data["tensors"],
        params=data["params"],
        when=when or {},
    )


def find_recipes(folder):
    """Every launch.json below a folder, with the one cubin beside it, in the order of their paths."""
    recipes = []
    for path in sorted(Path(folder).rglob("launch.json")):
        beside = path.parent / "when.json"
        when = json.loads(beside.read_text()) if beside.exists() else {}
        recipe = parse_recipe(json.loads(path.read_text()), when, str(path))
        cubins = sorted(path.parent.glob("*.cubin"))
        if len(cubins) != 1:
            raise RecipeError(f"{path}: {len(cubins)} cubins beside it, not 1")
        recipe.cubin = cubins[0]
        recipes.append(recipe)
    if not recipes:
        raise RecipeError(f"{folder}: no launch.json")
    return recipes


def build_facts(folder):
    """`build.json` of a folder that export.sh wrote: assembler, revision, date. None when there is none."""
    path = Path(folder) / "build.json"
    return json.loads(path.read_text()) if path.exists() else None


def serves(recipe, problem):
    """Whether a recipe is for a problem: every field of `when` must fit it."""
    for name, value in recipe.when.items():
        bound, _, bounded = name.partition("_")
        has = getattr(problem, bounded if bound in ("min", "max") else name, None)
        if has is None:
            return False
        if not (has >= value if bound == "min" else has <= value if bound == "max" else has == value):
            return False
    return True


def choose(recipes, problem):
    """The recipe with the longest `when` among those that serve a problem, the first of equals; None without one."""
    return max((recipe for recipe in recipes if serves(recipe, problem)), key=lambda recipe: len(recipe.when), default=None)


def grid_blocks(recipe, names, sm_count):
    """How many CTAs to launch."""
    total = 1
    for text in recipe.grid["blocks"]:
        extent = evaluate(text, names)
        if extent <= 0:
            raise RecipeError(f"{recipe.entry}: {extent} blocks from '{text}'")
        total *= extent
    return min(total, sm_count) if recipe.grid["kind"] == "persistent" else total


def check_tensors(recipe, names, tensors):
    """Refuses tensors of other types or shapes than the kernel was built for."""
    for fact in recipe.tensors:
        view = tensors.get(fact["name"])
        if view is None:
            raise RecipeError(f"{recipe.entry}: no tensor '{fact['name']}'; there are {sorted(tensors)}")
        shape = tuple(evaluate(text, names) for text in fact["dims"])
        if (view.dtype, tuple(view.shape)) != (fact["dtype"], shape):
            raise RecipeError(f"{recipe.entry}: {fact['name']} is {view.dtype} {view.shape}, wanted {fact['dtype']} {shape}")
        if shape[-1] % fact["row_multiple_elems"]:
            raise RecipeError(
                f"{recipe.entry}: {fact['name']} has rows of {shape[-1]} elements; the kernel writes whole pieces, allowed: "
                f"a multiple of {fact['row_multiple_elems']}"
            )
        if any(stride * view.elem_bytes % fact["align_bytes"] for stride in view.strides[:-1]):
            raise RecipeError(
                f"{recipe.entry}: {fact['name']} has strides {view.strides}; the kernel copies pieces, allowed: multiples of "
                f"{fact['align_bytes']} bytes"
            )


def map_spec(param, view):
    """The tensor map a parameter asks for, checked against what the hardware takes."""
    box = tuple(param["box"])
    if len(box) != len(view.shape):
        raise RecipeError(f"{param['name']}: box has {len(box)} extents, the tensor {len(view.shape)} dimensions")
    if view.strides[-1] != 1:
        raise RecipeError(f"{param['name']}: the innermost dimension must be contiguous, its stride is {view.strides[-1]}")
    strides_bytes = tuple(stride * view.elem_bytes for stride in reversed(view.strides[:-1]))
    swizzle, l2_promotion = param["swizzle"], param["l2_promotion"]
    if swizzle not in MAP_SWIZZLES or l2_promotion not in MAP_L2_PROMOTIONS:
        raise RecipeError(f"{param['name']}: swizzle {swizzle} or L2 promotion {l2_promotion} does not exist")
    if any(not 1 <= extent <= 256 for extent in box):
        raise RecipeError(f"{param['name']}: box extents must be 1 to 256, not {box}")
    if swizzle and box[-1] * view.elem_bytes > swizzle:
        raise RecipeError(f"{param['name']}: {box[-1]} elements are wider than the {swizzle}-byte swizzle")
    if view.pointer % 16 or any(stride % 16 for stride in strides_bytes):
        raise RecipeError(f"{param['name']}: address and strides must be multiples of 16 bytes, not {strides_bytes}")
    return MapSpec(
        pointer=view.pointer,
        dtype=MAP_DTYPES[view.dtype],
        dims=tuple(reversed(view.shape)),
        strides_bytes=strides_bytes,
        box=tuple(reversed(box)),
        swizzle=MAP_SWIZZLES[swizzle],
        l2_promotion=MAP_L2_PROMOTIONS[l2_promotion],
    )


def value_of(param, names, tensors):
    """A parameter that is a plain value, as the kernel reads it."""
    kind, name = param["kind"], param["name"]
    if kind == "pointer":
        return ctypes.c_uint64(tensors[param["tensor"]].pointer)
    if kind == "stride":
        return ctypes.c_int64(tensors[param["tensor"]].strides[param["dim"]])
    if name not in names:
        raise RecipeError(f"no value for '{name}'; there are {', '.join(sorted(names))}")
    if kind == "scalar":
        return ctypes.c_float(names[name])
    # ctypes would cut what does not fit.
    if not 0 <= names[name] <= LARGEST:
        raise RecipeError(f"{name}: {names[name]} is above {LARGEST}, which kernels can round up in 32 bits")
    return ctypes.c_int32(names[name])


# ---- below: needs the CUDA driver ----


@cache
def driver():
    """The CUDA driver. Torch has made a context current before anything here is called."""
    return ctypes.CDLL("libcuda.so.1")


def check(code, what):
    """Raises with CUDA's own name for an error."""
    if code == 0:
        return
    name = ctypes.c_char_p()
    driver().cuGetErrorName(code, ctypes.byref(name))
    raise RuntimeError(f"{what}: {(name.value or b'unknown').decode()} ({code})")


class Module:
    """A loaded cubin. Keep it as long as its function is launched."""

    def __init__(self, recipe):
        self.recipe = recipe
        self._module = ctypes.c_void_p()
        self.function = ctypes.c_void_p()
        name, cuda = recipe.name, driver()
        check(cuda.cuModuleLoadData(ctypes.byref(self._module), recipe.cubin.read_bytes()), f"loading {name}")
        entry = recipe.entry.encode()
        check(cuda.cuModuleGetFunction(ctypes.byref(self.function), self._module, entry), f"entry of {name}")
        code = cuda.cuFuncSetAttribute(self.function, MAX_DYNAMIC_SHARED_SIZE_BYTES, recipe.shared_bytes)
        check(code, f"shared memory of {name}")


class Launch:
    """One launch with all its parameters fixed; calling it is one driver call.

    `allocate(bytes, initial)` returns (pointer, owner) of scratch memory that holds the pattern.
    """

    def __init__(self, module, names, tensors, sm_count, allocate):
        recipe = module.recipe
        check_tensors(recipe, names, tensors)
        self._module = module
        self._grid = grid_blocks(recipe, names, sm_count)
        self._kept = []
        addresses = [self._address(param, names, tensors, allocate) for param in recipe.params]
        self._params = (ctypes.c_void_p * len(addresses))(*addresses)

    def _address(self, param, names, tensors, allocate):
        if param["kind"] == "tensor_map":
            address, owner = encode_map(map_spec(param, tensors[param["tensor"]]))
            self._kept.append(owner)
            return address
        if param["kind"] == "scratch":
            pointer, owner = allocate(param["bytes"], param["initial"])
            self._kept.append(owner)
            value = ctypes.c_uint64(pointer)
        else:
            value = value_of(param, names, tensors)
        self._kept.append(value)
        return ctypes.addressof(value)

    def __call__(self, stream):
        """Enqueues the launch on a stream handle."""
        recipe, stream = self._module.recipe, ctypes.c_void_p(stream)
        code = driver().cuLaunchKernel(
            self._module.function, self._grid, 1, 1, *recipe.block, recipe.shared_bytes, stream, self._params, None
        )
        check(code, f"launching {recipe.name}")


def encode_map(spec):
    """A tensor map as (address aligned to its size, owner of the memory)."""
    owner = (ctypes.c_char * (2 * MAP_BYTES))()
    address = -(-ctypes.addressof(owner) // MAP_BYTES) * MAP_BYTES
    rank = len(spec.dims)
    code = driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(address),
        spec.dtype,
        rank,
        ctypes.c_void_p(spec.pointer),
        (ctypes.c_uint64 * rank)(*spec.dims),
        (ctypes.c_uint64 * max(1, rank - 1))(*spec.strides_bytes),
        (ctypes.c_uint32 * rank)(*spec.box),
        (ctypes.c_uint32 * rank)(*([1] * rank)),
        0,
        spec.swizzle,
        spec.l2_promotion,
        0,
    )
    check(code, f"tensor map {spec}")
    return address, owner
