"""Loads cubins with their launch recipes and launches them. The only module that knows the recipe's format.

A recipe is `launch.json` beside one `.cubin`::

    {"entry": "fwd", "target": "sm_90a", "block": [384, 1, 1], "shared_bytes": 196720,
     "when": {"head_dim": 128, "mask": "causal"},
     "grid": {"kind": "persistent", "tiles": ["ceil_div(q_len, 128)", "heads", "batch"]},
     "params": [
       {"name": "q.map", "kind": "tensor_map", "tensor": "q", "box": [64, 1, 128, 1], "swizzle": 128, "l2_promotion": 128},
       {"name": "q_len", "kind": "u32"}, {"name": "tiles", "kind": "u32", "value": "ceil_div(q_len, 128) * heads * batch"},
       {"name": "scale_log2", "kind": "f32"}, {"name": "o.ptr", "kind": "ptr", "tensor": "o"},
       {"name": "q.stride.1", "kind": "i64"}, {"name": "scratch", "kind": "scratch", "bytes": 8, "initial": 0}]}

`when` (optional) lists the problem fields a kernel was built for. Boxes have one entry per dimension, innermost first;
strides are torch's, in elements, with dimensions counted outermost first. A parameter without `value` takes the runtime
name it is called by. Scratch is set to `initial` before every launch, inside the timed span, because the kernel needs it.

The upper half is pure; the lower half needs cuda-bindings and a GPU.
"""

import ctypes
import json
import struct
from dataclasses import dataclass, field
from pathlib import Path

from expr import evaluate

SCALARS = {"u32": "<I", "i32": "<i", "u64": "<Q", "i64": "<q", "f32": "<f"}
KNOWN_KEYS = {"entry", "target", "block", "shared_bytes", "grid", "params", "when"}

# CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapL2promotion of cuda.h.
MAP_DTYPES = {"f16": 6, "f32": 7, "bf16": 9}
MAP_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
MAP_L2_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}
MAP_BYTES = 128
MAP_ALIGN_BYTES = 64


class RecipeError(ValueError):
    """A recipe that says too little, too much, or something impossible."""


@dataclass(frozen=True)
class TensorView:
    """What a recipe needs to know of a tensor. `shape` and `strides` (in elements) are outermost first."""

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
    """A parsed launch.json."""

    entry: str
    target: str
    block: tuple
    shared_bytes: int
    grid: dict
    params: list
    when: dict = field(default_factory=dict)
    cubin: Path = None


def parse_recipe(data, source="launch.json"):
    """A recipe from decoded JSON."""
    unknown = set(data) - KNOWN_KEYS
    missing = KNOWN_KEYS - {"when"} - set(data)
    if unknown or missing:
        raise RecipeError(f"{source}: unknown keys {sorted(unknown)}, missing keys {sorted(missing)}")
    grid = data["grid"]
    if grid.get("kind") not in ("persistent", "tiles") or not grid.get("tiles"):
        raise RecipeError(f"{source}: grid needs kind persistent|tiles and a list of tiles, not {grid}")
    if len(data["block"]) != 3:
        raise RecipeError(f"{source}: block has {len(data['block'])} extents, not 3")
    for param in data["params"]:
        kind = param.get("kind")
        if kind not in SCALARS and kind not in ("tensor_map", "ptr", "scratch"):
            raise RecipeError(f"{source}: parameter {param.get('name')} has unknown kind '{kind}'")
    return Recipe(
        entry=data["entry"],
        target=data["target"],
        block=tuple(data["block"]),
        shared_bytes=data["shared_bytes"],
        grid=grid,
        params=data["params"],
        when=data.get("when", {}),
    )


def find_recipes(folder):
    """Every launch.json below a folder, with the one cubin beside it, in the order of their paths."""
    recipes = []
    for path in sorted(Path(folder).rglob("launch.json")):
        recipe = parse_recipe(json.loads(path.read_text()), str(path))
        cubins = sorted(path.parent.glob("*.cubin"))
        if len(cubins) != 1:
            raise RecipeError(f"{path}: {len(cubins)} cubins beside it, not 1")
        recipe.cubin = cubins[0]
        recipes.append(recipe)
    if not recipes:
        raise RecipeError(f"{folder}: no launch.json")
    return recipes


def serves(recipe, problem):
    """Whether a recipe was built for a problem: every field of `when` must have the problem's value."""
    return all(getattr(problem, name, None) == value for name, value in recipe.when.items())


def runtime_names(problem, tensors, sm_count):
    """What expressions and parameters may name: the problem's values, `sms`, and strides as `q.stride.1`."""
    names = dict(problem.names(), sms=sm_count)
    for name, view in tensors.items():
        for dim, stride in enumerate(view.strides):
            names[f"{name}.stride.{dim}"] = stride
    return names


def grid_extents(recipe, names):
    """The launch grid. Persistent kernels get one block per SM, or one per tile when there are fewer."""
    tiles = [evaluate(text, names) for text in recipe.grid["tiles"]]
    if any(extent <= 0 for extent in tiles):
        raise RecipeError(f"{recipe.entry}: tiles {tiles} from {recipe.grid['tiles']}")
    if recipe.grid["kind"] == "persistent":
        total = 1
        for extent in tiles:
            total *= extent
        blocks_per_sm = recipe.grid.get("blocks_per_sm", 1)
        return (min(total, names["sms"] * blocks_per_sm), 1, 1)
    if len(tiles) > 3:
        raise RecipeError(f"{recipe.entry}: a grid has at most 3 extents, not {len(tiles)}")
    return tuple(tiles + [1] * (3 - len(tiles)))


def scalar_bytes(param, names):
    """A scalar parameter as the kernel reads it."""
    text = param.get("value", param["name"])
    # Names with dots are no identifiers, so they are looked up before anything is parsed.
    value = names[text] if isinstance(text, str) and text in names else evaluate(text, names)
    form = SCALARS[param["kind"]]
    if param["kind"] != "f32" and value != int(value):
        raise RecipeError(f"{param['name']}: {value} is no whole number")
    try:
        return struct.pack(form, value if param["kind"] == "f32" else int(value))
    except struct.error as error:
        raise RecipeError(f"{param['name']}: {value} does not fit {param['kind']}: {error}") from None


def map_spec(param, view):
    """The tensor map a parameter asks for, checked against what the hardware takes."""
    box = tuple(param["box"])
    if len(box) != len(view.shape):
        raise RecipeError(f"{param['name']}: box has {len(box)} extents, the tensor {len(view.shape)} dimensions")
    if view.strides[-1] != 1:
        raise RecipeError(f"{param['name']}: the innermost dimension must be contiguous, its stride is {view.strides[-1]}")
    strides_bytes = tuple(stride * view.elem_bytes for stride in reversed(view.strides[:-1]))
    swizzle = param.get("swizzle", 0)
    l2_promotion = param.get("l2_promotion", 0)
    if swizzle not in MAP_SWIZZLES or l2_promotion not in MAP_L2_PROMOTIONS:
        raise RecipeError(f"{param['name']}: swizzle {swizzle} or L2 promotion {l2_promotion} does not exist")
    if any(not 1 <= extent <= 256 for extent in box):
        raise RecipeError(f"{param['name']}: box extents must be 1 to 256, not {box}")
    if swizzle and box[0] * view.elem_bytes > swizzle:
        raise RecipeError(f"{param['name']}: {box[0]} elements are wider than the {swizzle}-byte swizzle")
    if view.pointer % 16 or any(stride % 16 for stride in strides_bytes):
        raise RecipeError(f"{param['name']}: address and strides must be multiples of 16 bytes, not {strides_bytes}")
    return MapSpec(
        pointer=view.pointer,
        dtype=MAP_DTYPES[view.dtype],
        dims=tuple(reversed(view.shape)),
        strides_bytes=strides_bytes,
        box=box,
        swizzle=MAP_SWIZZLES[swizzle],
        l2_promotion=MAP_L2_PROMOTIONS[l2_promotion],
    )


# ---- below: needs cuda-bindings and a GPU ----


def check(result):
    """The value of a cuda-bindings call, or an error with CUDA's own name for it."""
    code, values = result[0], result[1:]
    if int(code) != 0:
        raise RuntimeError(f"CUDA driver: {code!r}")
    return values[0] if len(values) == 1 else values


class Module:
    """A loaded cubin. Keep it as long as its function is launched."""

    def __init__(self, recipe):
        from cuda.bindings import driver

        self._driver = driver
        self.recipe = recipe
        self._module = check(driver.cuModuleLoadData(recipe.cubin.read_bytes()))
        self.function = check(driver.cuModuleGetFunction(self._module, recipe.entry.encode()))
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        check(driver.cuFuncSetAttribute(self.function, attribute, recipe.shared_bytes))

    def bind(self, problem, tensors, sm_count, allocate):
        """A launch on given tensors. `allocate(bytes)` returns (pointer, keep_alive) for scratch memory."""
        names = runtime_names(problem, tensors, sm_count)
        return Launch(self, names, tensors, allocate)


class Launch:
    """One launch with all its parameters fixed; calling it costs two driver calls at most."""

    def __init__(self, module, names, tensors, allocate):
        self._driver = module._driver
        self._module = module
        self._grid = grid_extents(module.recipe, names)
        self._fills = []
        self._kept = []
        buffers = [self._buffer(param, names, tensors, allocate) for param in module.recipe.params]
        self._kept += buffers
        self._pointers = (ctypes.c_void_p * len(buffers))(*[ctypes.addressof(buffer) for buffer in buffers])

    def _buffer(self, param, names, tensors, allocate):
        kind = param["kind"]
        if kind in SCALARS:
            data = scalar_bytes(param, names)
            return (ctypes.c_char * len(data)).from_buffer_copy(data)
        if kind == "tensor_map":
            buffer, owner = encode_map(map_spec(param, tensors[param["tensor"]]))
            self._kept.append(owner)
            return buffer
        if kind == "ptr":
            return ctypes.c_uint64(tensors[param["tensor"]].pointer)
        if param["bytes"] % 4:
            raise RecipeError(f"{param['name']}: scratch is filled by words, {param['bytes']} bytes are no multiple of 4")
        pointer, owner = allocate(param["bytes"])
        self._kept.append(owner)
        self._fills.append((pointer, param.get("initial", 0), param["bytes"] // 4))
        return ctypes.c_uint64(pointer)

    def __call__(self, stream):
        """Enqueues the launch on a stream handle."""
        driver, recipe = self._driver, self._module.recipe
        for pointer, word, count in self._fills:
            check(driver.cuMemsetD32Async(pointer, word, count, stream))
        check(
            driver.cuLaunchKernel(
                self._module.function,
                *self._grid,
                *recipe.block,
                recipe.shared_bytes,
                stream,
                ctypes.addressof(self._pointers),
                0,
            )
        )


def encode_map(spec):
    """The 128 bytes of a tensor map as (aligned view, owner of the memory).

    Called through ctypes because the driver wants its output aligned to 64 bytes, which an object of the bindings does
    not promise.
    """
    owner = (ctypes.c_char * (MAP_BYTES + MAP_ALIGN_BYTES))()
    offset = -ctypes.addressof(owner) % MAP_ALIGN_BYTES
    buffer = (ctypes.c_char * MAP_BYTES).from_buffer(owner, offset)
    rank = len(spec.dims)
    code = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
        ctypes.c_void_p(ctypes.addressof(buffer)),
        ctypes.c_int(spec.dtype),
        ctypes.c_uint32(rank),
        ctypes.c_void_p(spec.pointer),
        (ctypes.c_uint64 * rank)(*spec.dims),
        (ctypes.c_uint64 * max(1, rank - 1))(*spec.strides_bytes),
        (ctypes.c_uint32 * rank)(*spec.box),
        (ctypes.c_uint32 * rank)(*([1] * rank)),
        ctypes.c_int(0),
        ctypes.c_int(spec.swizzle),
        ctypes.c_int(spec.l2_promotion),
        ctypes.c_int(0),
    )
    if code != 0:
        raise RuntimeError(f"cuTensorMapEncodeTiled: CUDA error {code} for {spec}")
    return buffer, owner
