"""TileAALoopsToFor: loops that count, in every shape that C++ leaves, go round as often as the reference says."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place
from tileiras.tools import opt

I32_MAX = 2**31 - 1
NSW = "overflow<no_signed_wrap> "
FIRST = "%is = cmpi not_equal %first, %zero, signed : tile<i32> -> tile<i1>\n"
PLAIN = "(%sum = %zero, %i = %lo)"
TYPES = "tile<i32>, tile<i32>"


def work(index: str = "%i") -> str:
    return f"%s1 = muli %sum, %three : tile<i32>\n%next = addi %s1, {index} : tile<i32>\n"


def counts(compare: str, step: str, index: str = "%i", flags: str = NSW, before: str = "") -> str:
    """`while (i PREDICATE bound) { work; i += step; }`."""
    return f"""%r:2 = loop iter_values{PLAIN} : {TYPES} -> {TYPES} {{
      {before}
      %go = cmpi {compare} : tile<i32> -> tile<i1>
      if %go {{
        {work(index)}
        %up = addi %i, {step} {flags}: tile<i32>
        continue %next, %up : {TYPES}
      }}
      break %sum, %i : {TYPES}
    }}"""


def flagged(compare: str, step: str = "%one", flags: str = NSW) -> str:
    """`for (i = lo; i PREDICATE bound; i += step) work;`."""
    return f"""%r:3 = loop iter_values(%sum = %zero, %i = %lo, %first = %one) : {TYPES}, tile<i32> -> {TYPES}, tile<i32> {{
      {FIRST}
      %j = if %is -> (tile<i32>) {{
        yield %i : tile<i32>
      }} else {{
        %up = addi %i, {step} {flags}: tile<i32>
        yield %up : tile<i32>
      }}
      %go = cmpi {compare} : tile<i32> -> tile<i1>
      if %go {{
        {work("%j")}
        continue %next, %j, %zero : {TYPES}, tile<i32>
      }}
      break %sum, %j, %zero : {TYPES}, tile<i32>
    }}"""


DO = f"""%r:3 = loop iter_values(%sum = %zero, %i = %lo, %first = %one) : {TYPES}, tile<i32> -> {TYPES}, tile<i32> {{
      {FIRST}
      %go = if %is -> (tile<i1>) {{
        yield %yes : tile<i1>
      }} else {{
        %c = cmpi less_than %i, %n, signed : tile<i32> -> tile<i1>
        yield %c : tile<i1>
      }}
      if %go {{
        {work()}
        %up = addi %i, %STEP {NSW}: tile<i32>
        continue %next, %up, %zero : {TYPES}, tile<i32>
      }}
      break %sum, %i, %zero : {TYPES}, tile<i32>
    }}"""


def stepped(compare: str, step: str) -> str:
    """`do { work; } while ((i += step) PREDICATE bound);`."""
    return f"""%r:3 = loop iter_values(%sum = %zero, %i = %lo, %first = %one) : {TYPES}, tile<i32> -> {TYPES}, tile<i32> {{
      {FIRST}
      %j:2 = if %is -> (tile<i32>, tile<i1>) {{
        yield %i, %yes : tile<i32>, tile<i1>
      }} else {{
        %up = addi %i, {step} {NSW}: tile<i32>
        %c = cmpi {compare} : tile<i32> -> tile<i1>
        yield %up, %c : tile<i32>, tile<i1>
      }}
      if %j#1 {{
        {work("%j#0")}
        continue %next, %j#0, %zero : {TYPES}, tile<i32>
      }}
      break %sum, %j#0, %zero : {TYPES}, tile<i32>
    }}"""


def behind(compare: str, step: str, broken: str = "%told, %up") -> str:
    """`while (true) { work; i += step; if (COMPARE) break; }`, whose work may be done no more often than it is asked for."""
    return f"""%r:2 = loop iter_values{PLAIN} : {TYPES} -> {TYPES} {{
      {work()}
      %seen, %read = load_ptr_tko weak %o : tile<ptr<i32>> -> tile<i32>, token
      %told = addi %next, %seen : tile<i32>
      %up = addi %i, {step} {NSW}: tile<i32>
      %stop = cmpi {compare} : tile<i32> -> tile<i1>
      if %stop {{
        break {broken} : {TYPES}
      }}
      continue %told, %up : {TYPES}
    }}"""


def asked(compare: str, step: str = "%one", flags: str = NSW, start: str = "%more", test: str = "") -> str:
    """`while (more) { work; i += step; more = COMPARE; }`, with a flag as C++ has it, in a byte."""
    types = f"{TYPES}, tile<i8>"
    test = test or "%go = cmpi not_equal %flag, %no, signed : tile<i8> -> tile<i1>"
    return f"""%no = constant <i8: 0> : tile<i8>
    %enters = cmpi greater_than %n, %lo, signed : tile<i32> -> tile<i1>
    %e32 = exti %enters unsigned : tile<i1> -> tile<i32>
    %more = trunci %e32 : tile<i32> -> tile<i8>
    %given = trunci %p : tile<i32> -> tile<i8>
    %r:3 = loop iter_values(%sum = %zero, %i = %lo, %flag = {start}) : {types} -> {types} {{
      {test}
      if %go {{
        {work()}
        %up = addi %i, {step} {flags}: tile<i32>
        %c = cmpi {compare} : tile<i32> -> tile<i1>
        %c32 = exti %c unsigned : tile<i1> -> tile<i32>
        %again = trunci %c32 : tile<i32> -> tile<i8>
        continue %next, %up, %again : {types}
      }}
      break %sum, %i, %flag : {types}
    }}"""


# `while (!done)`: a byte, as a bit, as a number, turned, and as a bit again
NEGATION = """%bit = cmpi not_equal %flag, %no, signed : tile<i8> -> tile<i1>
      %wide = exti %bit signed : tile<i1> -> tile<i32>
      %turned = xori %wide, {by} : tile<i32>
      %kept = andi %turned, {mask} : tile<i32>
      %go = cmpi not_equal %kept, %zero, signed : tile<i32> -> tile<i1>"""
BREAK = f"""%r:2 = loop iter_values{PLAIN} : {TYPES} -> {TYPES} {{
      %stop = cmpi greater_than_or_equal %i, %n, signed : tile<i32> -> tile<i1>
      if %stop {{
        break %sum, %i : {TYPES}
      }}
      {work()}
      %up = addi %i, %one {NSW}: tile<i32>
      continue %next, %up : {TYPES}
    }}"""
FOREVER = f"""%r:2 = loop iter_values{PLAIN} : {TYPES} -> {TYPES} {{
      %always = cmpi equal %one, %one, signed : tile<i32> -> tile<i1>
      if %always {{
        %stop = cmpi greater_than_or_equal %i, %n, signed : tile<i32> -> tile<i1>
        %kept = if %stop -> (tile<i32>) {{
          break %sum, %i : {TYPES}
        }} else {{
          yield %three : tile<i32>
        }}
        {work("%kept")}
        %up = addi %i, %one {NSW}: tile<i32>
        continue %next, %up : {TYPES}
      }}
      break %sum, %i : {TYPES}
    }}"""
# a second test in front of the work, as `for (..) { if (i * 4 >= n) break; work }` leaves it; what goes on is of either end
EARLY = flagged("less_than %j, %bound, signed").replace(
    work("%j"),
    f"""%w = muli %j, %four {NSW}: tile<i32>
        %stop = cmpi greater_than_or_equal %w, %n, signed : tile<i32> -> tile<i1>
        %kept = if %stop -> (tile<i32>) {{
          break %sum, %j, %zero : {TYPES}, tile<i32>
        }} else {{
          yield %j : tile<i32>
        }}
        {work("%kept")}""",
)
EARLY_WRAPS = counts("less_than %i, %bound, signed", "%one").replace("%i = %lo", "%i = %zero").replace(
    work(),
    f"""%w = muli %i, %four : tile<i32>
        %stop = cmpi less_than %n, %w, signed : tile<i32> -> tile<i1>
        if %stop {{
          break %sum, %i : {TYPES}
        }}
        %above = cmpi greater_than %i, %lo, signed : tile<i32> -> tile<i1>
        if %above {{
          break %sum, %i : {TYPES}
        }}
        {work()}""",
)  # fmt: skip
EARLY_DO = DO.replace("%STEP", "%one").replace(
    work(),
    f"""%half = divi %p, %two signed rounding<zero> : tile<i32>
        %stop = cmpi greater_than %i, %half, signed : tile<i32> -> tile<i1>
        if %stop {{
          break %sum, %i, %zero : {TYPES}, tile<i32>
        }}
        {work()}""",
)
DO_TIMES = DO.replace("%STEP", "%one").replace(
    "%c = cmpi less_than %i, %n,",
    "%half = divi %n, %two signed rounding<zero> : tile<i32>\n"
    f"%w = muli %i, %four {NSW}: tile<i32>\n%c = cmpi less_than %w, %half,",
)


def both(second: str, first: str = "less_than %j, %n, signed", step: str = "%one", before: str = "") -> str:
    """`for (i = lo; FIRST && SECOND; i += step) work;`."""
    return flagged("COMPARE", step).replace(
        "%go = cmpi COMPARE : tile<i32> -> tile<i1>",
        f"""%one_holds = cmpi {first} : tile<i32> -> tile<i1>
      %go = if %one_holds -> (tile<i1>) {{
        {before}
        %other_holds = cmpi {second} : tile<i32> -> tile<i1>
        yield %other_holds : tile<i1>
      }} else {{
        %never = constant <i1: false> : tile<i1>
        yield %never : tile<i1>
      }}""",
    )


# `if (i >= n || i > p) break;`
EITHER = BREAK.replace(
    "%stop = cmpi greater_than_or_equal %i, %n, signed : tile<i32> -> tile<i1>",
    """%at_end = cmpi greater_than_or_equal %i, %n, signed : tile<i32> -> tile<i1>
      %stop = if %at_end -> (tile<i1>) {
        yield %yes : tile<i1>
      } else {
        %above = cmpi less_than %bound, %i, signed : tile<i32> -> tile<i1>
        yield %above : tile<i1>
      }""",
)
AND = flagged("less_than %j, %n, signed").replace("%go = cmpi", "%c0 = cmpi").replace(
    "if %go {", "%c1 = cmpi less_than_or_equal %j, %p, signed : tile<i32> -> tile<i1>\n%go = andi %c1, %c0 : tile<i1>\nif %go {"
)  # fmt: skip


def together(compare: str, step: str, second: str, result: str = "%j#0") -> str:
    """`for (i = lo, k = 7; COMPARE; i += step, SECOND) work;`."""
    types = f"{TYPES}, tile<i32>, tile<i32>"
    return f"""%seven = constant <i32: 7> : tile<i32>
    %r:4 = loop iter_values(%sum = %zero, %i = %lo, %k = %seven, %first = %one) : {types} -> {types} {{
      {FIRST}
      %j:2 = if %is -> ({TYPES}) {{
        yield %i, %k : {TYPES}
      }} else {{
        %up = addi %i, {step} {NSW}: tile<i32>
        %next_k = {second} : tile<i32>
        yield %up, %next_k : {TYPES}
      }}
      %go = cmpi {compare} : tile<i32> -> tile<i1>
      if %go {{
        {work("%j#0")}
        %told = muli %next, %j#1 : tile<i32>
        continue %told, %j#0, %j#1, %zero : {types}
      }}
      break %sum, {result}, %j#1, %zero : {types}
    }}"""


def meeting(
    compare: str,
    up: str = "%one",
    down: str = "%minus",
    apart: str = "not_equal %i, %k, signed",
    flags: str = NSW,
) -> str:
    """`for (i = lo, k = n; COMPARE; i += UP, k += DOWN) { work; if (APART) more; }`."""
    types = f"{TYPES}, tile<i32>"
    return f"""%r:3 = loop iter_values(%sum = %zero, %i = %lo, %k = %n) : {types} -> {types} {{
      %go = cmpi {compare} : tile<i32> -> tile<i1>
      if %go {{
        {work("%i")}
        %apart = cmpi {apart} : tile<i32> -> tile<i1>
        %told = if %apart -> (tile<i32>) {{
          %times = muli %next, %k : tile<i32>
          yield %times : tile<i32>
        }} else {{
          yield %next : tile<i32>
        }}
        %up = addi %i, {up} {flags}: tile<i32>
        %down = addi %k, {down} {flags}: tile<i32>
        continue %told, %up, %down : {types}
      }}
      break %sum, %i, %k : {types}
    }}"""


def skipping_pairs(ends: str, when: str = "greater_than %sum, %far, signed") -> str:
    """`meeting`, of which some steps end in front of their work."""
    steps = [
        f"%{name} = addi %{index}, %{by} {NSW}: tile<i32>"
        for name, index, by in (("up", "i", "one"), ("down", "k", "minus"))
    ]
    loop = meeting("less_than_or_equal %i, %k, signed")
    for step in steps:
        loop = loop.replace(step, "")
    return loop.replace(
        "%s1 = muli",
        "\n".join(steps)
        + f"""
        %skips = cmpi {when} : tile<i32> -> tile<i1>
        if %skips {{
          continue {ends} : {TYPES}, tile<i32>
        }}
        %s1 = muli""",
    )


# `for (..) { if ((i & 1) == 0) continue; work }`, and what of it is the value of a branch
SKIPS = flagged("less_than %j, %n, signed").replace(
    work("%j"),
    f"""%odd = andi %j, %one : tile<i32>
        %even = cmpi equal %odd, %zero, signed : tile<i32> -> tile<i1>
        %kept = if %even -> (tile<i32>) {{
          %more = addi %sum, %one : tile<i32>
          continue %more, %j, %zero : {TYPES}, tile<i32>
        }} else {{
          yield %j : tile<i32>
        }}
        {work("%kept")}""",
)
SKIPS_PLAIN = (
    counts("less_than %i, %n, signed", "%one")
    .replace(
        work(),
        f"""%up = addi %i, %one {NSW}: tile<i32>
        %above = cmpi greater_than %sum, %n, signed : tile<i32> -> tile<i1>
        if %above {{
          %odd = andi %i, %one : tile<i32>
          %even = cmpi equal %odd, %zero, signed : tile<i32> -> tile<i1>
          if %even {{
            continue %two, %up : {TYPES}
          }} else {{
            continue %sum, %up : {TYPES}
          }}
        }}
        {work()}""",
    )
    .replace(f"%up = addi %i, %one {NSW}: tile<i32>\n        continue", "continue")
)
LARGE = """%large = cmpi greater_than %sum, %far, signed : tile<i32> -> tile<i1>
        if %large {{
          continue {0}
        }}
        """
SKIPS_ALONE = counts("less_than %i, %n, signed", "%one").replace(
    "%s1 = muli",
    f"""%large = cmpi greater_than %sum, %far, signed : tile<i32> -> tile<i1>
        if %large {{
          %u = addi %i, %one {NSW}: tile<i32>
          continue %two, %u : {TYPES}
        }}
        %s1 = muli""",
)
SKIPS_TWICE = SKIPS.replace(
    "%s1 = muli", LARGE.format(f"%two, %j, %zero : {TYPES}, tile<i32>") + "%s1 = muli"
)
# what nvcc leaves of a loop whose body loads through a lambda: the first time round, its tokens are chosen, too
ORDERED = f"""%t0 = make_token : token
    %r:5 = loop iter_values(%sum = %zero, %i = %lo, %first = %one, %ta = %t0, %tb = %t0)
      : {TYPES}, tile<i32>, token, token -> {TYPES}, tile<i32>, token, token {{
      {FIRST}
      %j:3 = if %is -> (token, token, tile<i32>) {{
        yield %ta, %tb, %i : token, token, tile<i32>
      }} else {{
        %tj = join_tokens %tb, %ta : token
        %up = addi %i, %one {NSW}: tile<i32>
        yield %tj, %tj, %up : token, token, tile<i32>
      }}
      %tn = join_tokens %j#0, %j#1 : token
      %go = cmpi less_than %j#2, %n, signed : tile<i32> -> tile<i1>
      if %go {{
        {work("%j#2")}
        %tl = store_ptr_tko weak %o, %next token = %tn : tile<ptr<i32>>, tile<i32> -> token
        continue %next, %j#2, %zero, %tl, %tn : {TYPES}, tile<i32>, token, token
      }}
      break %sum, %j#2, %zero, %tn, %j#0 : {TYPES}, tile<i32>, token, token
    }}"""  # fmt: skip


def wrapping(start: str, test: str, before: str, step: str = "%one") -> str:
    """`for (i = start; TEST of what `before` makes of it; i += step)`, where nothing says that numbers do not overflow."""
    return counts(test, step, flags="", before=before).replace("%i = %lo", f"%i = {start}")


ADDED = "%v = addi %i, %one : tile<i32>\n"
TIMES = "%w = muli %i, %four : tile<i32>"
FROM_ZERO = {
    "times_four_from_zero": wrapping("%zero", "less_than %w, %n, signed", TIMES),
    "times_four_from_three_at_most": wrapping(
        "%three", "less_than_or_equal %w, %n, signed", ADDED + TIMES.replace("%i", "%v"), "%two"
    ),
    "whole_steps_from_zero": wrapping(
        "%zero", "less_than_or_equal %w, %n, signed", "%w = addi %i, %four : tile<i32>", "%four"
    ),
}
SHIFTED = "%w = shli %i, %two : tile<i32>"
ASSUMED = "%k = assume bounded<?, 1000>, %i : tile<i32>"
COUNTING = {
    "first_with_tokens": ORDERED,
    "while": counts("less_than %i, %n, signed", "%one"),
    "bound_first": counts("greater_than %n, %i, signed", "%one"),
    "at_most": counts("less_than_or_equal %i, %n, signed", "%one"),
    "steps_of_three": counts("less_than %i, %n, signed", "%three"),
    "unsigned": counts("less_than %i, %n, unsigned", "%one", flags=""),
    "unlike": counts("not_equal %i, %far, signed", "%one"),
    "down": counts("greater_than_or_equal %i, %low, signed", "%minus"),
    "down_by_three": counts("greater_than %i, %low, signed", "%minus3"),
    "down_at_least_by_three": counts("greater_than_or_equal %i, %low, signed", "%minus3"),
    "down_by_subtracting": counts("greater_than %i, %low, signed", "%three").replace("%up = addi", "%up = subi"),
    "first_down_by_subtracting": flagged("greater_than_or_equal %j, %low, signed", "%two").replace(
        "%up = addi", "%up = subi"
    ),
    "down_to_a_number": counts("greater_than %i, %zero, signed", "%minus3", flags=""),
    "down_to_a_number_by_subtracting": counts("greater_than_or_equal %i, %minus3, signed", "%two", flags="").replace(
        "%up = addi", "%up = subi"
    ),
    "down_with_what_is_assumed": counts(
        "greater_than %k, %zero, signed", "%three", index="%k", flags="", before=ASSUMED
    ).replace("%up = addi %i", "%up = subi %k").replace("break %sum, %i", "break %sum, %k"),
    "index_behind_the_step": counts("less_than %i, %n, signed", "%one", index="%up").replace(
        work("%up"), f"%up = addi %i, %one {NSW}: tile<i32>\n{work('%up')}", 1
    ).replace(f"%up = addi %i, %one {NSW}: tile<i32>\n        continue", "continue"),
    "times_four": counts("less_than %w, %n, signed", "%one", before=f"%w = muli %i, %four {NSW}: tile<i32>"),
    "times_four_at_most": counts("greater_than_or_equal %n, %w, signed", "%one", before=f"%w = muli %four, %i {NSW}: tile<i32>"),
    "whole_steps": counts("less_than_or_equal %w, %n, signed", "%three", before=f"%w = addi %i, %three {NSW}: tile<i32>"),
    **FROM_ZERO,
    "shifted_from_zero": wrapping("%zero", "less_than %w, %n, signed", SHIFTED),
    "shifted_at_most": wrapping("%zero", "greater_than_or_equal %n, %w, signed", ADDED + SHIFTED.replace("%i", "%v")),
    "shifted_from_anywhere": counts("less_than %w, %n, signed", "%three", before=SHIFTED.replace(" :", f" {NSW}:", 1)),
    "first": flagged("less_than %j, %n, signed"),
    "first_unlike": flagged("not_equal %j, %far, signed"),
    "first_down": flagged("greater_than_or_equal %j, %low, signed", "%minus"),
    "first_at_most": flagged("less_than_or_equal %j, %n, signed", "%three"),
    "do": DO.replace("%STEP", "%one"),
    "do_by_three": DO.replace("%STEP", "%three"),
    "do_half_of_a_number": DO_TIMES,
    "do_down": DO.replace("less_than %i, %n", "greater_than %i, %low").replace("%STEP", "%minus"),
    "do_down_by_three": DO.replace("less_than %i, %n", "greater_than_or_equal %i, %low").replace("%STEP", "%minus3"),
    "do_stepped": stepped("less_than %up, %n, signed", "%one"),
    "do_stepped_at_most": stepped("greater_than_or_equal %n, %up, signed", "%three"),
    "do_stepped_down": stepped("greater_than_or_equal %up, %low, signed", "%minus"),
    "do_stepped_down_by_three": stepped("greater_than %up, %low, signed", "%minus3"),
    "do_stepped_by_subtracting": stepped("greater_than %up, %low, signed", "%two").replace("%up = addi", "%up = subi"),
    "do_stepped_step_of_an_argument": stepped("less_than %up, %n, signed", "%p"),
    "behind": behind("greater_than_or_equal %up, %n, signed", "%one"),
    "behind_by_three": behind("less_than %n, %up, signed", "%three"),
    "behind_down": behind("less_than %up, %low, signed", "%minus"),
    "behind_equal": behind("equal %up, %beyond, signed", "%one"),
    "behind_what_stays": behind("greater_than_or_equal %up, %n, signed", "%one", "%sum, %up").replace(
        "continue %told", "continue %sum"
    ).replace("%sum = %zero", "%sum = %p"),
    "behind_step_of_an_argument": behind("greater_than_or_equal %up, %n, signed", "%p"),
    "skips": SKIPS,
    "skips_plain": SKIPS_PLAIN,
    "skips_twice": SKIPS_TWICE,
    "skips_alone": SKIPS_ALONE,
    "skips_alone_behind_a_branch": SKIPS_ALONE.replace("if %large {", "%same = if %large -> (tile<i32>) {")
    .replace("}\n        %s1", "} else {\n          yield %i : tile<i32>\n        }\n        %s1")
    .replace("%up = addi %i,", "%up = addi %same,"),
    "together": together("less_than %j#0, %n, signed", "%one", "addi %k, %four"),
    "together_down": together("greater_than %j#0, %low, signed", "%minus3", "addi %k, %minus"),
    "together_behind": together("less_than %j#0, %n, signed", "%one", "muli %k, %three", "%j#1"),
    "together_crossed": together("less_than %j#0, %n, signed", "%one", "addi %k, %i"),
    "together_with_the_next": together("less_than %j#0, %n, signed", "%one", "addi %k, %up"),
    "both": both("less_than %j, %p, signed"),
    "both_at_most": both("greater_than_or_equal %p, %j, signed", "less_than_or_equal %j, %n, signed"),
    "both_by_three": both("less_than %w, %p, signed", step="%three", before=f"%w = muli %j, %four {NSW}: tile<i32>"),
    "both_of_three": both("less_than %j, %p, signed").replace(
        "yield %other_holds",
        """%c3 = cmpi greater_than %bound, %j, signed : tile<i32> -> tile<i1>
        %c4 = andi %other_holds, %c3 : tile<i1>
        yield %c4""",
    ),
    "both_at_once": AND,
    "both_or_left": EITHER,
    "asked": asked("less_than %up, %n, signed"),
    "asked_given": asked("less_than %up, %n, signed", start="%given"),
    "asked_of_a_bit": asked("less_than %up, %n, signed", test="").replace("tile<i8>", "tile<i1>").replace(
        "%given = trunci %p : tile<i32> -> tile<i1>", ""
    ).replace("<i8: 0>", "<i1: 0>").replace("%more = trunci %e32 : tile<i32> -> tile<i1>", "").replace(
        "%again = trunci %c32 : tile<i32> -> tile<i1>", ""
    ).replace("%flag = %more", "%flag = %enters").replace("%up, %again", "%up, %c").replace(
        "%go = cmpi not_equal %flag, %no, signed : tile<i1> -> tile<i1>", ""
    ).replace("if %go", "if %flag"),
    "asked_by_three": asked("greater_than_or_equal %n, %up, signed", "%three", start="%given"),
    "asked_down": asked("greater_than %up, %low, signed", "%minus", start="%given"),
    "asked_down_by_three": asked("greater_than_or_equal %up, %low, signed", "%minus3", start="%given"),
    "asked_whether_it_is_done": asked(
        "greater_than_or_equal %up, %n, signed",
        start="%given",
        test="%go = cmpi equal %flag, %no, signed : tile<i8> -> tile<i1>",
    ),
    "asked_for_its_negation": asked(
        "greater_than_or_equal %up, %n, signed", start="%given", test=NEGATION.format(by="%one", mask="%one")
    ),
    "asked_for_its_complement": asked(
        "greater_than_or_equal %up, %n, signed", start="%given", test=NEGATION.format(by="%minus", mask="%one")
    ),
    "asked_step_of_an_argument": asked("less_than %up, %n, signed", "%p"),
    "blocks_apart": flagged("less_than %j, %n, signed", "%bx", "").replace(
        "%up = addi", "%bx, %by, %bz = get_num_tile_blocks : tile<i32>\n        %up = addi"
    ),
    "meeting": meeting("less_than_or_equal %i, %k, signed"),
    "meeting_below": meeting("greater_than %k, %i, signed", apart="equal %k, %i, signed"),
    "meeting_by_three": meeting("less_than_or_equal %i, %k, signed", "%two", apart="less_than %i, %k, signed"),
    "meeting_by_four": meeting("less_than %i, %k, signed", "%one", "%minus3", "less_than_or_equal %k, %i, signed"),
    "meeting_by_subtracting": meeting("greater_than_or_equal %k, %i, signed", down="%two").replace(
        "%down = addi", "%down = subi"
    ),
    "meeting_by_catching_up": meeting("less_than_or_equal %i, %k, signed", "%three", "%one"),
    "meeting_asked_at_once": meeting("less_than_or_equal %i, %k, signed").replace(work(), "", 1).replace(
        "%told = if", work() + "%told = if"
    ),
    "meeting_in_front": together("less_than_or_equal %j#0, %j#1, signed", "%one", f"addi %k, %minus {NSW}"),
    "meeting_skips": skipping_pairs("%two, %up, %down"),
    "meeting_skips_the_middle": skipping_pairs("%two, %up, %down", "greater_than_or_equal %i, %k, signed"),
    "meeting_skips_in_front": together(
        "less_than_or_equal %j#0, %j#1, signed", "%one", f"addi %k, %minus {NSW}", "%j#1"
    ).replace("%s1 = muli", LARGE.format(f"%two, %j#0, %j#1, %zero : {TYPES}, {TYPES}") + "%s1 = muli"),
    "together_skips": together("less_than %j#0, %n, signed", "%one", "muli %k, %three").replace(
        "%s1 = muli", LARGE.format(f"%two, %j#0, %j#1, %zero : {TYPES}, {TYPES}") + "%s1 = muli"
    ),
    "early": EARLY,
    "early_twice": EARLY_WRAPS,
    "do_early": EARLY_DO,
    "break": BREAK,
    "forever": FOREVER,
    "step_of_an_argument": counts("less_than %i, %n, signed", "%p"),
    "step_of_an_argument_at_most": counts(
        "less_than_or_equal %w, %n, signed", "%p", before=f"%w = muli %i, %four {NSW}: tile<i32>"
    ),
    "first_step_of_an_argument": flagged("less_than %j, %n, signed", "%p"),
    "do_step_of_an_argument": DO.replace("%STEP", "%p"),
}  # fmt: skip
# shapes that look like counting, where a `for` would not go round as often, or some value is not there behind it
OTHERS = {
    "times_that_wrap": counts("less_than %w, %n, signed", "%one", before="%w = muli %i, %four : tile<i32>"),
    "times_that_wrap_unevenly": wrapping("%zero", "less_than %w, %n, signed", TIMES, "%three"),
    "shifted_into_the_sign": wrapping(
        "%zero",
        "less_than %w, %n, signed",
        "%c31 = constant <i32: 31> : tile<i32>\n" + SHIFTED.replace("%two", "%c31"),
    ),
    "a_number_shifted": wrapping(
        "%zero", "less_than %w, %n, signed", SHIFTED.replace("%i, %two", "%two, %i")
    ),
    "times_from_below_zero": wrapping("%minus", "less_than %w, %n, signed", TIMES),
    "wraps": counts("not_equal %i, %far, signed", "%three", flags=""),
    "at_most_unsigned": counts("less_than_or_equal %i, %n, unsigned", "%one", flags=""),
    "step_of_an_argument_that_wraps": counts("less_than %i, %n, signed", "%p", flags=""),
    "step_of_an_argument_unsigned": counts("less_than %i, %n, unsigned", "%p", flags=""),
    "step_of_an_argument_down": counts("greater_than %i, %n, signed", "%p"),
    "step_moves": counts("less_than %i, %n, signed", "%sum"),
    "bound_moves": counts("less_than %i, %sum, signed", "%one"),
    "early_unlike": EARLY.replace("%stop = cmpi greater_than_or_equal", "%stop = cmpi equal"),
    "early_below": EARLY.replace("%stop = cmpi greater_than_or_equal", "%stop = cmpi less_than"),
    "early_with_other_sums": EARLY.replace("break %sum, %j, %zero : ", "break %three, %j, %zero : ", 1),
    "early_behind_a_store": EARLY.replace(
        "%stop =", "%told = store_ptr_tko weak %o, %j : tile<ptr<i32>>, tile<i32> -> token\n%stop =", 1
    ),
    "early_down": EARLY.replace("less_than %j, %bound, signed", "greater_than %j, %low, signed").replace(
        "%i, %one", "%i, %minus"
    ),
    "subtracts_from_a_number": counts("greater_than %i, %zero, signed", "%i", flags="").replace(
        "%up = addi %i, %i", "%up = subi %three, %i"
    ),
    "subtracts_an_argument": counts("greater_than %i, %low, signed", "%p").replace(
        "%up = addi", "%up = subi"
    ),
    "wraps_down_at_the_least": counts(
        "greater_than_or_equal %i, %least, signed",
        "%minus3",
        flags="",
        before="%least = constant <i32: -2147483646> : tile<i32>",
    ),
    "behind_with_sums_of_before": behind("greater_than_or_equal %up, %n, signed", "%one", "%sum, %up"),
    "behind_a_sum": behind("greater_than_or_equal %up, %told, signed", "%one"),
    "do_that_goes_on_for_another_reason": stepped("less_than %sum, %n, signed", "%one"),
    "do_that_wraps_down": stepped("greater_than %up, %low, signed", "%minus").replace(f"{NSW}", ""),
    "skips_in_front_of_a_test_behind": behind("greater_than_or_equal %up, %n, signed", "%one").replace(
        work(),
        f"""%above = cmpi greater_than %sum, %n, signed : tile<i32> -> tile<i1>
      if %above {{
        %u = addi %i, %one : tile<i32>
        continue %two, %u : {TYPES}
      }}
      {work()}""",
    ),
    "leaves_in_front_of_a_test_behind": behind("greater_than_or_equal %up, %n, signed", "%one").replace(
        work(),
        f"""%above = cmpi greater_than %sum, %n, signed : tile<i32> -> tile<i1>
      if %above {{
        break %two, %i : {TYPES}
      }}
      {work()}""",
    ),
    "skips_and_stays": SKIPS_PLAIN.replace("continue %two, %up", "continue %two, %i"),
    "skips_or_leaves": SKIPS_PLAIN.replace("continue %two, %up", "break %two, %up"),
    "skips_asked": asked("less_than %up, %n, signed").replace(
        "%next = addi",
        """%above = cmpi greater_than %s1, %n, signed : tile<i32> -> tile<i1>
        if %above {
          %u = addi %i, %one : tile<i32>
          continue %sum, %u, %flag : tile<i32>, tile<i32>, tile<i8>
        }
        %next = addi""",
    ),
    "together_bound_moves": together("less_than %j#0, %j#1, signed", "%one", "addi %k, %four"),
    "together_with_the_sum": together("less_than %j#0, %n, signed", "%one", "addi %k, %sum"),
    "both_unlike": both("not_equal %j, %p, signed"),
    "both_down": both("greater_than %j, %p, signed", "greater_than %j, %low, signed", "%minus"),
    "both_of_the_sum": both("less_than %sum, %p, signed"),
    "both_of_a_load": both(
        "less_than %j, %seen, signed",
        before="%seen, %read = load_ptr_tko weak %o : tile<ptr<i32>> -> tile<i32>, token",
    ),
    "both_or_neither": both("less_than %j, %p, signed").replace("<i1: false>", "<i1: true>"),
    "both_or_one": AND.replace("andi", "ori"),
    "asked_with_more_than_a_bit": asked(
        "greater_than_or_equal %up, %n, signed",
        start="%given",
        test=NEGATION.format(by="%one", mask="%three"),
    ),
    "asked_of_the_sum": asked("less_than %next, %n, signed"),
    "asked_that_wraps_down": asked("greater_than %up, %low, signed", "%minus", flags=""),
    "asked_in_the_work": asked("less_than %up, %n, signed").replace(
        "%s1 = muli %sum, %three", "%f = exti %flag signed : tile<i8> -> tile<i32>\n%s1 = muli %sum, %f"
    ),
    "wraps_down": counts("greater_than %i, %low, signed", "%minus", flags=""),
    "meeting_skips_and_stays": skipping_pairs("%two, %up, %k"),
    "meeting_that_wraps": meeting("less_than_or_equal %i, %k, signed", flags=""),
    "meeting_unsigned": meeting("less_than_or_equal %i, %k, unsigned"),
    "meeting_by_one": meeting("less_than %i, %k, signed", "%two", "%one"),
    "meeting_never": meeting("less_than %i, %k, signed", "%minus", "%one"),
    "meeting_until_they_are_equal": meeting("not_equal %i, %k, signed"),
}


def module(loop: str, result: str = "%r#0") -> str:
    numbers = {"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "minus": -1, "minus3": -3}
    constants = "\n".join(f"%{k} = constant <i32: {v}> : tile<i32>" for k, v in numbers.items())
    return f"""cuda_tile.module @m {{
  entry @k(%o: tile<ptr<i32>>, %lo: tile<i32>, %n: tile<i32>, %p: tile<i32>) {{
    {constants}
    %yes = constant <i1: true> : tile<i1>
    %bound = addi %p, %four : tile<i32>
    %far = maxi %lo, %n signed : tile<i32>
    %low = mini %lo, %n signed : tile<i32>
    %past = addi %lo, %one : tile<i32>
    %beyond = maxi %past, %n signed : tile<i32>
    {loop}
    %t = store_ptr_tko weak %o, {result} : tile<ptr<i32>>, tile<i32> -> token
    return
  }}
}}"""


def sums(text: str, target: str, lo: int, n: int, p: int = 1) -> int:
    out = place(np.full(1, -7, np.int32))
    args = [out, np.int32(lo), np.int32(n), np.int32(p)]
    tileiras.launch(text, "k", grid=(1, 1, 1), args=args, target=target, gpu_name="sm_80")
    return int(np.array(out)[0])


def dumped(text: str, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> str:
    source = tmp_path / "k.tileir"
    source.write_text(text)
    passes = "ConvertCudaTileToTileAA,TileAAFoldScalars,TileAALoopsToFor"
    assert opt.main(["--pass", passes, str(source)]) == 0
    return capsys.readouterr().out


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", COUNTING)
def test_loops_that_count(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    text = module(COUNTING[name])
    found = dumped(text, capsys, tmp_path)
    assert "nv_tileaa.for " in found and "nv_tileaa.loop " not in found
    for lo, n in ((0, 0), (0, 1), (0, 5), (2, 9), (3, 3), (7, 4), (-5, -2), (-9, 8)):
        assert sums(text, "emulator", lo, n) == sums(text, "reference", lo, n), (lo, n)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name in COUNTING if "step_of_an_argument" in name])
def test_steps_known_at_run_time(name: str) -> None:
    """Where the step is below 1, a loop that goes round at all does not end."""
    text = module(COUNTING[name])
    cases = [(lo, n, p) for p in (2, 5, 100) for lo, n in ((0, 0), (0, 1), (0, 10), (3, 9), (7, 4), (-9, 8))]
    if not name.startswith("do"):
        cases += [(4, 0, 0), (9, -3, -2)]
    for lo, n, p in cases:
        assert sums(text, "emulator", lo, n, p) == sums(text, "reference", lo, n, p), (lo, n, p)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("p", [0, 1, 255, 256])
@pytest.mark.parametrize("name", [name for name in COUNTING if name.startswith("asked_")])
def test_flags_that_the_loop_is_given(name: str, p: int) -> None:
    """Whether it goes round at all is no comparison of its index."""
    for k in (0, 1):
        text = module(COUNTING[name], f"%r#{k}")
        for lo, n in ((0, 0), (0, 5), (7, 4), (-9, 8), (I32_MAX - 2, I32_MAX), (-I32_MAX - 1, 2 - I32_MAX)):
            steps = ("down", "three", "argument")
            if (abs(lo) > 9 and any(word in name for word in steps)) or (p == 0 and steps[2] in name):
                continue  # goes round for ever, or overflows
            assert sums(text, "emulator", lo, n, p) == sums(text, "reference", lo, n, p), (k, lo, n)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name in COUNTING if name.startswith("both")])
def test_two_bounds(name: str) -> None:
    """The lower one ends the loop, which may be below where it begins, or the greatest number."""
    cases = [(lo, n, p) for lo in (-3, 0, 4) for n in (-5, 0, 9) for p in (-4, 2, 20)]
    cases += [(I32_MAX - 3, n, p) for n in (I32_MAX - 1, I32_MAX, 5) for p in (I32_MAX - 2, 9)]
    cases += [
        (lo, n, p) for lo in (3 - I32_MAX,) for n in (6 - I32_MAX, -I32_MAX) for p in (5 - I32_MAX, I32_MAX)
    ]
    for k in (0, 1):
        text = module(COUNTING[name], f"%r#{k}")
        for lo, n, p in cases:
            if abs(lo) > 9 and ("three" in name or "left" in name):  # numbers overflow
                continue
            assert sums(text, "emulator", lo, n, p) == sums(text, "reference", lo, n, p), (k, lo, n, p)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "name", [name for name in COUNTING if name.startswith("meeting") and "front" not in name]
)
def test_indices_that_meet(name: str) -> None:
    """At either end of the numbers, and where they have passed each other at first."""
    for k in (0, 1, 2):
        text = module(COUNTING[name], f"%r#{k}")
        for lo in (12 - I32_MAX, -3, 5, I32_MAX - 60):
            for n in (lo - 9, lo - 1, lo, lo + 1, lo + 2, lo + 7, lo + 12, -lo if lo > 9 else lo):
                assert sums(text, "emulator", lo, n) == sums(text, "reference", lo, n), (k, lo, n)


@pytest.mark.parametrize("name", OTHERS)
def test_loops_that_do_not(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    assert "nv_tileaa.loop " in dumped(module(OTHERS[name]), capsys, tmp_path)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", COUNTING)
def test_an_index_that_is_used_behind(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    """It is computed from the bounds; not where the step is a value of the run."""
    text = module(COUNTING[name], "%r#1")
    left = "nv_tileaa.loop " in dumped(text, capsys, tmp_path)
    assert left == ("step_of_an_argument" in name or name == "blocks_apart")
    for lo, n in ((0, 0), (0, 1), (0, 5), (2, 9), (3, 3), (7, 4), (-5, -2), (-9, 8)):
        assert sums(text, "emulator", lo, n) == sums(text, "reference", lo, n), (lo, n)


@pytest.mark.parametrize(("bound", "loops"), [("%n", 1), ("%p", 2)])
def test_two_loops_share_an_index(
    bound: str, loops: int, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    """The second one begins where the first one ended: with the same bound it has nothing to do."""
    first = COUNTING["while"]
    second = first.replace("%r:2", "%q:2").replace("%sum = %zero, %i = %lo", "%sum = %r#0, %i = %r#1")
    text = module(first + "\n" + second.replace("%i, %n", f"%i, {bound}"), "%q#0")
    found = dumped(text, capsys, tmp_path)
    assert found.count("nv_tileaa.for ") == loops and "nv_tileaa.loop " not in found
    for lo, n, p in ((0, 0, 0), (0, 3, 5), (2, 9, 4), (7, 4, 8), (7, 4, 5), (-5, -2, 1)):
        assert sums(text, "emulator", lo, n, p) == sums(text, "reference", lo, n, p), (lo, n, p)


@pytest.mark.parametrize(("count", "operand"), [(60, "%b{0}"), (3000, "%b0")])
def test_a_bound_of_many_steps(
    count: int, operand: str, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    """What the bound is made of in the loop is looked at once each."""
    steps = "\n".join(f"%b{k + 1} = addi %b{k}, {operand.format(k)} : tile<i32>" for k in range(count))
    before = f"%b0 = addi %n, %one : tile<i32>\n{steps}"
    text = module(counts(f"less_than %i, %b{count}, signed", "%one", before=before))
    assert "nv_tileaa.for " in dumped(text, capsys, tmp_path)


def test_loops_in_a_loop_that_has_nothing_left_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    """cuTile splits a `for` at a test of its index; what the part behind the end has in it goes with it."""
    inner = COUNTING["while"].replace("%r:2", "%q:2").replace("%sum = %zero", "%sum = %s0")
    outer = f"""%begin = maxi %lo, %n signed : tile<i32>
    %r = for %k in (%begin to %n, step %one) : tile<i32> iter_values(%s0 = %zero) -> (tile<i32>) {{
      {inner}
      continue %q#0 : tile<i32>
    }}"""
    text = module(outer, "%r")
    assert "nv_tileaa.for " not in dumped(text, capsys, tmp_path)
    assert sums(text, "emulator", 2, 5) == sums(text, "reference", 2, 5) == 0
