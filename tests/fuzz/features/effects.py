"""Effects on what lives outside: globals, arguments, module state, aliases."""

from __future__ import annotations

from tests.fuzz.grammar import REFUSED, Writer, expression, statement


@statement("append to a global", 1.5)
def _(w: Writer) -> None:
    w.line(f"LOG.append({w.expr(w.pick('int', 'tensor', 'list', 'str', 'tuple'))})")


@statement("global store", 1.2)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    name = w.fresh("bump")
    with w.module_level():
        with w.function(f"def {name}(by):", int="by"):
            w.line("global G, LAST")
            w.mark()
            w.line("G = (G + by) % 1009")
            w.line(f"LAST = {w.expr(w.pick('tensor', 'int', 'list'))}")
            w.body(1)
            w.line("return G")
    w.assign("int", f"{name}({w.expr('int')})")
    if w.chance(0.5):
        w.mark()
        w.line(f"LOG.append((G, {name}({w.expr('int')}), G))")
    return None


@statement("global delete", 0.3)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    name, gone = w.fresh("drop"), w.fresh("GONE")
    with w.module_level():
        w.line(f"{gone} = 3")
        with w.function(f"def {name}():"):
            w.line(f"global {gone}")
            w.line(f"{gone} = {w.expr('int')}")
            w.mark()
            w.line(f"del {gone}")
            with w.block("try:"):
                w.line(f"return {gone}")
            with w.block("except NameError as error:"):
                w.line("return str(error)")
    w.assign("str", f"{name}()")
    return None


@statement("dict of a module")
def _(w: Writer) -> None:
    w.line(
        w.pick(
            f"TABLE[{w.expr('str')}[:6]] = {w.expr('int')}",
            f"TABLE.setdefault('k', []).append({w.expr('int')})",
            f"TABLE['t'] = {w.expr('tensor')}",
            f"TABLE.update(q={w.expr('int')})",
            "TABLE.pop('q', None)",
        )
    )


@statement("attributes of shared state", 1.2)
def _(w: Writer) -> None:
    w.line(
        w.pick(
            f"STATE.count += {w.expr('int')}",
            f"STATE.last = {w.expr('tensor')}",
            f"STATE.items.append({w.expr('int')})",
            f"STATE.table['n'] = {w.expr('int')}",
            f"setattr(STATE, 'extra', {w.expr('int')})",
            f"STATE.items = {w.expr('list')}",
            "STATE.__dict__.pop('extra', None)",
            f"STATE.self = STATE; STATE.count = {w.expr('int')}",
        )
    )


@expression("int", "reading shared state")
def _(w: Writer) -> str:
    return w.pick(
        "G", "STATE.count", "len(STATE.items)", "getattr(STATE, 'extra', 5)", "len(LOG)", "TABLE.get('q', 1)", "len(TABLE)"
    )


@statement("alias", 1.2)
def _(w: Writer) -> str | None:
    kind = w.pick("list", "dict", "tensor", "set")
    known = w.variable(kind)
    if known is None:
        return REFUSED
    name = w.assign(kind, known)
    w.mark()
    change = {
        "list": f"{name}.append({w.expr('int')})",
        "dict": f"{name}['al'] = {w.expr('int')}",
        "tensor": f"{name}.add_({w.expr('int')})",
        "set": f"{name}.add({w.expr('int')})",
    }[kind]
    w.line(change)
    w.line(f"LOG.append({known})")
    return None


@statement("shared part", 0.8)
def _(w: Writer) -> None:
    part, whole = w.assign("list", f"[{w.expr('int')}]"), w.fresh("whole")
    w.line(f"{whole} = {{'one': {part}, 'two': ({part}, {w.expr('tensor')})}}")
    w.mark()
    w.line(f"{whole}['two'][0].append({w.expr('int')})")
    w.line(
        w.pick(
            f"STATE.whole = {whole}",
            f"LOG.append({whole})",
            f"{whole}['self'] = {whole}; LOG.append({whole})",
            f"xs.append(len({part}))",
        )
    )


@statement("argument mutated by a callee")
def _(w: Writer) -> None:
    w.line(
        w.pick(
            f"touch({w.expr('list')}, {w.expr('int')})",
            f"touch(xs, {w.expr('int')})",
            f"shared({w.expr('dict')}, {w.expr('tensor')})",
            f"touch(ts, {w.expr('tensor')})",
        )
    )


@statement("swap of elements", 0.5)
def _(w: Writer) -> None:
    items = w.assign("list", f"[1, 2, *{w.expr('list')}]")
    w.line(f"{items}[0], {items}[-1] = {items}[-1], {items}[0]")
    w.line(f"{items}[1] += {items}.pop()")


@statement("identity kept", 0.6)
def _(w: Writer) -> str | None:
    known = w.variable("list")
    if known is None:
        return REFUSED
    held = w.fresh("held")
    w.line(f"{held} = ({known}, {known}, list({known}))")
    w.mark()
    w.line(f"LOG.append(({held}[0] is {held}[1], {held}[0] is {held}[2], {held}))")
    return None


@statement("output", 0.3)
def _(w: Writer) -> None:
    w.line(f"print({w.expr('str')}, {w.expr('int')}, sep={w.pick(repr('-'), repr(''))})")
    w.used["break: output"] += 1
