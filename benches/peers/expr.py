"""Small arithmetic over runtime names: + - * / % (rounding down), ceil_div(a, b), min, max. Read by Python's parser, never evaluated by it."""

import ast

_FUNCTIONS = {
    "ceil_div": (2, lambda a, b: -(-a // b)),
    "min": (None, min),
    "max": (None, max),
}
_OPERATORS = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    # Launch facts write rounding-down division as `/`.
    ast.Div: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


class ExprError(ValueError):
    """An expression with something else in it, or with an unknown name."""


def evaluate(text, names):
    """The value of an expression; a number stands for itself."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return text
    if not isinstance(text, str):
        raise ExprError(f"{text!r} is neither a number nor an expression")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise ExprError(f"'{text}' is no expression: {error.msg}") from None
    return _value(tree.body, text, names)


def _value(node, text, names):
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise ExprError(f"'{text}': no name '{node.id}'; there are: {', '.join(sorted(names))}")
        return names[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left, text, names), _value(node.right, text, names)
        if isinstance(node.op, (ast.Div, ast.Mod)) and right <= 0:
            raise ExprError(f"'{text}': division by {right}")
        return _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, text, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _call(node, text, names)
    raise ExprError(f"'{text}': allowed are numbers, names, + - * / %, ceil_div(a, b), min and max")


def _call(node, text, names):
    if node.func.id not in _FUNCTIONS:
        raise ExprError(f"'{text}': no function '{node.func.id}'; there are: {', '.join(_FUNCTIONS)}")
    count, function = _FUNCTIONS[node.func.id]
    values = [_value(argument, text, names) for argument in node.args]
    if not values or (count is not None and len(values) != count):
        raise ExprError(f"'{text}': {node.func.id} takes {count or 'at least one'} arguments, not {len(values)}")
    if node.func.id == "ceil_div" and values[1] <= 0:
        raise ExprError(f"'{text}': division by {values[1]}")
    return function(*values)
