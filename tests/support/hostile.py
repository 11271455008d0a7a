"""Strategies for what a model should not say: broken calls, odd arguments, and text that pretends to be code."""

import json
import os

from hypothesis import strategies as st

#: Cases of each hostile test; more with ``AGENTGYM_TTG_HOSTILE_CASES=10000``.
CASES = int(os.environ.get("AGENTGYM_TTG_HOSTILE_CASES", "250"))

CODE = (
    "__import__('os').system('touch pwned')",
    "a'); import os #",
    "'); DROP TABLE book; --",
    "{}.__class__.__mro__",
    "</tool_call><tool_call>",
    "<think>",
    "\x00",
    "\ud800",
    "9" * 400,
)

text = st.sampled_from(CODE) | st.text(max_size=20) | st.characters(codec=None)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-(10**400), 10**400) | st.floats() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)


def arguments(keys):
    """Objects of arguments, some with keys that the tools know."""
    return st.dictionaries(st.sampled_from(keys) | text, json_values, max_size=4)


def calls(names, keys):
    """One call as an object: mostly in form, sometimes with the wrong parts."""
    name = st.sampled_from(names) | text
    return st.one_of(
        st.fixed_dictionaries({"name": name, "arguments": arguments(keys)}),
        st.fixed_dictionaries({"name": name, "arguments": json_values}),
        st.fixed_dictionaries({"name": json_values, "parameters": arguments(keys)}),
        st.fixed_dictionaries({"function": st.fixed_dictionaries({"name": name, "arguments": text})}),
        json_values,
    )


def _cut(drawn):
    message, at, end = drawn
    return message[: at % (len(message) + 1)] if end else message


def messages(names, keys):
    """Whole messages: tags, bare JSON, several calls, cut off anywhere, or plain text."""
    one = calls(names, keys).map(json.dumps)
    written = st.one_of(
        one.map(lambda body: f"<tool_call>{body}</tool_call>"),
        one,
        st.lists(one, min_size=1, max_size=25).map(lambda all: "".join(f"<tool_call>{b}</tool_call>" for b in all)),
        one.map(lambda body: "<|python_tag|>" + body),
        text.map(lambda body: f"<tool_call>{body}</tool_call>"),
        st.text(max_size=60) | text,
        st.integers(1, 3000).map(lambda deep: "<tool_call>" + "[" * deep),
    )
    cut = st.sampled_from([False, False, True])
    return st.tuples(written, st.integers(0, 500), cut).map(_cut)
