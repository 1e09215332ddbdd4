"""The page at ``/docs``: every route with its body and answers, from the OpenAPI description; it loads nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from gainful.serve.page import asset, style_policy

Node = Mapping[str, Any]


def routes_page(described: Node) -> tuple[str, str]:
    """The page, and its content security policy."""
    style = asset("page.css")
    schemas = described["components"]["schemas"]
    routes = [
        (method, path, route) for path, methods in described["paths"].items() for method, route in methods.items()
    ]
    contents = "".join(
        f'<tr><th scope="row"><a href="#{_anchor(method, path)}"><code>{method.upper()} {escape(path)}</code></a></th>'
        f"<td>{escape(route['summary'])}</td></tr>"
        for method, path, route in routes
    )
    used = _used_schemas(schemas, [route for _, _, route in routes])
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>gainful: routes</title><style>{style}</style></head><body><header><h1>Routes of this server</h1>"
        f'<p class="soft">{escape(described["info"]["description"])} Version {escape(described["info"]["version"])}. '
        'Programs read <a href="openapi.json">openapi.json</a>. <a href="./">Try the model</a>.</p></header><main>'
        f"<table class='routes'><caption>All routes</caption><tbody>{contents}</tbody></table>"
        + "".join(_route(*one) for one in routes)
        + _refusals([route for _, _, route in routes])
        + "<h2>Objects</h2>"
        + "".join(_object(name, schemas[name]) for name in used)
        + "</main></body></html>"
    )
    return text, style_policy(style)


def _route(method: str, path: str, route: Node) -> str:
    bodies = [
        f"<code>{escape(kind)}</code>: {_type(content['schema'])}"
        for kind, content in route.get("requestBody", {}).get("content", {}).items()
    ]
    asked = f"<p>Body: {', or '.join(bodies)}</p>" if bodies else ""
    answers = [_answer(answer) for status, answer in route["responses"].items() if _is_success(status)]
    refusals = [f'<a href="#{status}">{status}</a>' for status in route["responses"] if not _is_success(status)]
    refused = f"<p>Refusals: {', '.join(refusals)}</p>" if refusals else ""
    return (
        f'<section id="{_anchor(method, path)}"><h2><code>{method.upper()} {escape(path)}</code></h2>'
        f"<p>{escape(route['summary'])}.</p>{asked}<p>Answer: {', or '.join(answers)}</p>{refused}</section>"
    )


def _answer(answer: Node) -> str:
    kinds = [_type(content["schema"]) for content in answer.get("content", {}).values()]
    about = answer["description"]
    return " ".join([*kinds, "" if about == "Successful Response" else escape(about)]).strip()


def _refusals(routes: list[Node]) -> str:
    """A table of what each status means."""
    found = {
        status: answer["description"]
        for route in routes
        for status, answer in sorted(route["responses"].items())
        if not _is_success(status)
    }
    rows = "".join(
        f'<tr id="{status}"><th scope="row">{status}</th><td>{escape(about)}</td></tr>'
        for status, about in sorted(found.items())
    )
    return (
        '<h2>Refusals</h2><p>The body is always an <a href="#ErrorAnswer">ErrorAnswer</a>.</p>'
        f'<table class="routes"><tbody>{rows}</tbody></table>'
    )


def _is_success(status: str) -> bool:
    return status.startswith("2")


def _object(name: str, schema: Node) -> str:
    required = schema.get("required", ())
    fields = "".join(
        f'<tr><th scope="row"><code>{escape(field)}</code></th><td>{_type(one)}'
        f"{', required' if field in required else ''}"
        f"{'. ' + _prose(one['description']) if 'description' in one else ''}</td></tr>"
        for field, one in schema.get("properties", {}).items()
    )
    about = f"<p>{_prose(schema['description'])}</p>" if "description" in schema else ""
    table = f'<table class="routes"><tbody>{fields}</tbody></table>'
    return f'<section id="{escape(name)}"><h3>{escape(name)}</h3>{about}{table}</section>'


def _prose(text: str) -> str:
    return re.sub("``(.+?)``", r"<code>\1</code>", escape(text))


def _type(schema: Node) -> str:
    """A type in words, as HTML; objects link to their own table."""
    if "$ref" in schema:
        name = escape(_name(schema["$ref"]))
        return f'<a href="#{name}">{name}</a>'
    for union in ("anyOf", "oneOf"):
        if union in schema and "type" not in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[union]))
    match schema.get("type"):
        case "array":
            return f"list of {_type(schema.get('items', {}))}"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"mapping from names to {_type(schema['additionalProperties'])}"
        case "string" if schema.get("format") == "binary":
            return "bytes"
        case str(kind):
            return escape(kind)
    return "any value"


def _used_schemas(schemas: Node, routes: list[Node]) -> list[str]:
    """The objects that the routes use, directly or inside others, in the order of their use."""
    found: dict[str, None] = {}
    waiting = [name for route in routes for name in _references(route)]
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found[name] = None
            waiting += _references(schemas[name])
    return list(found)


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield _name(node["$ref"])
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from _references(one)


def _name(reference: str) -> str:
    return reference.rpartition("/")[2]


def _anchor(method: str, path: str) -> str:
    return f"{method}{escape(path).replace('/', '-')}"
