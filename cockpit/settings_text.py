"""The config explained: an example, a JSON schema and a reference, from the structs that read it."""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any

import msgspec

from cockpit.settings_model import SECTIONS, ConfigFile
from engine.model import DeploymentSpec, SimulatedEngine

TABLES: dict[str, type[msgspec.Struct]] = {
    **{f"[{name}]": struct for name, struct in SECTIONS.items()},
    "[[engine]]": DeploymentSpec,
    "[engine.simulated]": SimulatedEngine,
}
"""The tables of a config file and the structs that they become."""


def example() -> str:
    """A commented config with every key; it passes `cockpit config check` as it is."""
    return Path(__file__).with_name("example.toml").read_text(encoding="utf-8")


def schema() -> dict[str, Any]:
    """The JSON schema of a config file, for editors that check TOML."""
    document: dict[str, Any] = _without_null(msgspec.json.schema(ConfigFile))
    structs: list[type[msgspec.Struct]] = [ConfigFile, *TABLES.values()]
    for struct in structs:
        properties = document["$defs"][struct.__name__]["properties"]
        for key, words in field_docs(struct).items():
            properties[key]["description"] = words
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "vllm-cockpit", **document}


def reference() -> str:
    """The keys of every table as Markdown."""
    parts = []
    for title, struct in TABLES.items():
        words = " ".join((inspect.getdoc(struct) or "").split())
        rows = ["| key | type | default | |", "|---|---|---|---|"]
        docs = field_docs(struct)
        properties = msgspec.json.schema(struct)["$defs"][struct.__name__]["properties"]
        for field in msgspec.structs.fields(struct):
            kind = _type_in_words(_without_null(properties[field.encode_name]))
            rows.append(f"| `{field.encode_name}` | {kind} | {_default(field)} | {docs[field.name]} |")
        parts.append(f"## `{title}`\n\n{words}\n\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def field_docs(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The docstrings below a struct's fields, which Python itself drops."""
    (tree,) = ast.parse(inspect.getsource(struct)).body
    assert isinstance(tree, ast.ClassDef)
    docs: dict[str, str] = {}
    for field, below in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            docs[field.target.id] = ""
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                docs[field.target.id] = " ".join(str(below.value.value).split())
    return {name: words for name, words in docs.items() if words}


def _without_null(node: Any) -> Any:
    """TOML has no null: a key that may be absent is simply not required."""
    if isinstance(node, list):
        return [_without_null(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: _without_null(value) for key, value in node.items()}
    if "anyOf" in node:
        options = [option for option in node["anyOf"] if option != {"type": "null"}]
        if len(options) < len(node["anyOf"]):
            node.pop("default", None)
        if len(options) == 1:
            del node["anyOf"]
            return node | options[0]
        node["anyOf"] = options
    return node


_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
    "array": "list",
    "object": "table",
}


def _type_in_words(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_type_in_words(option) for option in schema["anyOf"])
    return _WORDS[schema["type"]] if "type" in schema else "table"


def _default(field: msgspec.structs.FieldInfo) -> str:
    """The default as TOML would write it; a dash where the key has none."""
    if field.required:
        return "required"
    if field.default_factory is not msgspec.NODEFAULT or field.default is None:
        return "–"
    return f"`{json.dumps(field.default)}`"
