"""Is a contestant right? Sampled rows against f64, with the plain bf16 algorithm as the yardstick.

The error of a row is |o - r| / |r| (2-norms). A contestant passes when the RMS over rows and the worst row are each at
most 1.25 times the plain algorithm's, or one unit in the last place of the output where that is larger.
"""

ULPS = {"bf16": 2.0**-8, "f16": 2.0**-11}
FACTOR = 1.25


def verdict(errors, plain_errors, dtype):
    """Judges lists of row errors; returns a record with `ok`."""
    rms = _rms(errors)
    worst = max(errors)
    rms_limit = max(FACTOR * _rms(plain_errors), ULPS[dtype])
    worst_limit = max(FACTOR * max(plain_errors), ULPS[dtype])
    # A NaN among the errors makes the RMS a NaN, which is at most nothing.
    is_right = rms <= rms_limit and worst <= worst_limit
    return {"ok": is_right, "rms": rms, "rms_limit": rms_limit, "worst": worst, "worst_limit": worst_limit}


def _rms(errors):
    return (sum(error * error for error in errors) / len(errors)) ** 0.5


def sample_indices(length, count, seed):
    """`count` different indices below `length`, always with the first and the last."""
    import random

    if length <= count:
        return list(range(length))
    inner = random.Random(seed).sample(range(1, length - 1), max(0, count - 2))
    return sorted({0, length - 1, *inner})


class Judge:
    """Errors of sampled rows of one problem; keeps the reference of each set of tensors, which is most of the work."""

    def __init__(self, problem):
        self._problem = problem
        self._known = {}

    def row_errors(self, index, tensors, output, rows, batch=0):
        """Errors of the contestant's and of the plain algorithm's rows on set `index`: two lists."""
        is_forward = self._problem.kind == "fwd"
        key = (index, tuple(rows), batch)
        if key not in self._known:
            compute = _forward_rows if is_forward else _gemm_rows
            reference, plain = compute(self._problem, tensors, rows, batch)
            self._known[key] = (reference, _relative(plain, reference))
        reference, plain_errors = self._known[key]
        found = output[batch, rows] if is_forward else output[rows]
        return _relative(found, reference), plain_errors


def _relative(found, reference):
    import torch

    distance = torch.linalg.vector_norm(found.double() - reference, dim=-1)
    size = torch.linalg.vector_norm(reference, dim=-1)
    # A fully masked row is zero; then the error is absolute.
    return (distance / torch.where(size > 0, size, torch.ones_like(size))).flatten().tolist()


def _gemm_rows(problem, tensors, rows, _batch):
    a = tensors["a"].t() if problem.layout[0] == "t" else tensors["a"]
    b = tensors["b"].t() if problem.layout[1] == "t" else tensors["b"]
    reference = a[rows].double() @ b.double()
    return reference, (a[rows].float() @ b.float()).to(a.dtype)


def _forward_rows(problem, tensors, rows, batch):
    """[rows, heads, head_dim] of the f64 reference and of the plain algorithm, head by head to keep memory small."""
    import torch

    group = problem.heads // problem.kv_heads
    references, plains = [], []
    for head in range(problem.heads):
        query = tensors["q"][batch, rows, head]
        key, value = (tensors[name][batch, :, head // group] for name in ("k", "v"))
        mask = _mask(problem, rows, query.device)
        references.append(_exact(query.double(), key.double(), value.double(), mask, problem))
        plains.append(_plain(query, key, value, mask, problem))
    return torch.stack(references, dim=1), torch.stack(plains, dim=1)


def _mask(problem, rows, device):
    """True where a query may not look: [rows, kv_len]."""
    import torch

    if not problem.is_causal:
        return None
    last_visible = torch.tensor(rows, device=device)[:, None] + (problem.kv_len - problem.q_len)
    return torch.arange(problem.kv_len, device=device)[None, :] > last_visible


def _exact(query, key, value, mask, problem):
    import torch

    logits = (query @ key.T) * problem.head_dim**-0.5
    if mask is not None:
        logits = logits.masked_fill(mask, float("-inf"))
    return torch.nan_to_num(torch.softmax(logits, dim=-1), nan=0.0) @ value


def _plain(query, key, value, mask, problem, block=64):
    """The flash algorithm without any trick: f32 sums, exact running maximum, P rounded to the input type, blocks of 64."""
    import torch

    scale = problem.head_dim**-0.5
    rows = query.shape[0]
    highest = torch.full((rows, 1), float("-inf"), device=query.device)
    total = torch.zeros((rows, 1), device=query.device)
    out = torch.zeros((rows, value.shape[1]), device=query.device)
    for start in range(0, key.shape[0], block):
        logits = (query.float() @ key[start : start + block].float().T) * scale
        if mask is not None:
            logits = logits.masked_fill(mask[:, start : start + block], float("-inf"))
        new_highest = torch.maximum(highest, logits.amax(dim=1, keepdim=True))
        anchor = torch.where(torch.isinf(new_highest), torch.zeros_like(new_highest), new_highest)
        weights = torch.exp(logits - anchor)
        rescale = torch.exp(highest - anchor)
        total = total * rescale + weights.sum(dim=1, keepdim=True)
        out = out * rescale + weights.to(query.dtype).float() @ value[start : start + block].float()
        highest = new_highest
    return torch.where(total > 0, out / total, torch.zeros_like(out)).to(query.dtype)
