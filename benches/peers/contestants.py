"""Who is timed: cuDNN and FlashAttention 2 through torch, flash-attn-4, cuBLAS, and our cubins.

A contestant prepares one launch per set of tensors; `launch(set)` only enqueues. `session` is entered around a window.
"""

from contextlib import nullcontext

import launcher

TORCH_DTYPES = {"bf16": "bfloat16", "f16": "float16"}


class Unsupported(Exception):
    """A contestant cannot run a problem; the reason is its text."""


class Contestant:
    """One way to compute a problem."""

    def __init__(self, name):
        self.name = name
        self.detail = None
        """Which kernel it chose for the problem, where it says so."""

    def prepare(self, problem, sets):
        """Gets ready for a problem on sets of tensors (dicts by name)."""
        raise NotImplementedError

    def session(self):
        return nullcontext()

    def launch(self, index):
        """Enqueues the problem on set `index` on torch's current stream; returns the output tensor."""
        raise NotImplementedError


class Sdpa(Contestant):
    """torch's scaled_dot_product_attention with one backend forced."""

    def __init__(self, name, backend):
        super().__init__(name)
        self._backend_name = backend

    def prepare(self, problem, sets):
        from torch.nn.attention import SDPBackend

        if problem.kind != "fwd":
            raise Unsupported("attention only")
        if problem.is_causal and problem.q_len != problem.kv_len:
            raise Unsupported("torch aligns causal masks top left, we bottom right: equal lengths only")
        self._backend = getattr(SDPBackend, self._backend_name)
        # [B, S, H, D] in memory, seen as [B, H, S, D].
        self._views = [[tensors[name].transpose(1, 2) for name in ("q", "k", "v")] for tensors in sets]
        self._options = {"is_causal": problem.is_causal}
        if problem.heads != problem.kv_heads:
            self._options["enable_gqa"] = True

    def session(self):
        from torch.nn.attention import sdpa_kernel

        return sdpa_kernel(self._backend)

    def launch(self, index):
        from torch.nn.functional import scaled_dot_product_attention

        return scaled_dot_product_attention(*self._views[index], **self._options).transpose(1, 2)


class FlashAttention4(Contestant):
    """The sm90 kernel of flash-attn-4, when it can be imported."""

    def __init__(self):
        super().__init__("fa4")

    def prepare(self, problem, sets):
        if problem.kind != "fwd":
            raise Unsupported("attention only")
        try:
            from flash_attn.cute import flash_attn_func
        except Exception as error:  # Its compiler does work of its own at import.
            raise Unsupported(f"not importable: {error!r}") from None
        self._function = flash_attn_func
        self._inputs = [[tensors[name] for name in ("q", "k", "v")] for tensors in sets]
        self._options = {"causal": problem.is_causal}

    def launch(self, index):
        result = self._function(*self._inputs[index], **self._options)
        return result[0] if isinstance(result, tuple) else result


class Cublas(Contestant):
    """torch's matrix product."""

    def __init__(self):
        super().__init__("cublas")

    def prepare(self, problem, sets):
        if problem.kind != "gemm":
            raise Unsupported("matrix products only")
        is_a_transposed, is_b_transposed = (letter == "t" for letter in problem.layout)
        self._operands = [
            (
                tensors["a"].t() if is_a_transposed else tensors["a"],
                tensors["b"].t() if is_b_transposed else tensors["b"],
                tensors["c"],
            )
            for tensors in sets
        ]

    def launch(self, index):
        import torch

        a, b, c = self._operands[index]
        return torch.mm(a, b, out=c)


class Ours(Contestant):
    """Our cubins from a folder of launch recipes."""

    def __init__(self, name, folder):
        super().__init__(name)
        self._recipes = launcher.find_recipes(folder)
        self._modules = {}

    def prepare(self, problem, sets):
        import torch

        recipe = launcher.choose(self._recipes, problem)
        if recipe is None:
            raise Unsupported(f"none of {len(self._recipes)} kernels is for it")
        if recipe.cubin not in self._modules:
            self._modules[recipe.cubin] = launcher.Module(recipe)
        self.detail = recipe.name
        module, names = self._modules[recipe.cubin], problem.names()
        sm_count = torch.cuda.get_device_properties(0).multi_processor_count
        self._launches = [launcher.Launch(module, names, views(tensors), sm_count, allocate) for tensors in sets]
        self._outputs = [tensors[problem.output] for tensors in sets]
        self._stream = torch.cuda.current_stream().cuda_stream

    def launch(self, index):
        self._launches[index](self._stream)
        return self._outputs[index]


def allocate(size_bytes, initial):
    """Scratch memory that holds a u32 pattern, as (pointer, owner)."""
    import torch

    if size_bytes % 4:
        raise ValueError(f"scratch is filled by words, {size_bytes} bytes are no multiple of 4")
    signed = initial - 2**32 if initial >= 2**31 else initial
    owner = torch.full((size_bytes // 4,), signed, dtype=torch.int32, device="cuda")
    return owner.data_ptr(), owner


def views(tensors):
    """Torch tensors as a launch recipe sees them."""
    names = {"torch.bfloat16": "bf16", "torch.float16": "f16", "torch.float32": "f32"}
    return {
        name: launcher.TensorView(
            tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), names[str(tensor.dtype)], tensor.element_size()
        )
        for name, tensor in tensors.items()
    }


def all_peers():
    """The peers by name, in the order of the report."""
    return {
        "cudnn": Sdpa("cudnn", "CUDNN_ATTENTION"),
        "fa2": Sdpa("fa2", "FLASH_ATTENTION"),
        "fa4": FlashAttention4(),
        "cublas": Cublas(),
    }
