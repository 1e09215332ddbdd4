"""The application: routes, the thread pool they compute in, and the watcher of the model file."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from gainful import __version__
from gainful.data.categories import named_by_words
from gainful.errors import GainfulError
from gainful.persistence.jsonable import plain
from gainful.serve import schema
from gainful.serve.interleaving import Interleaver
from gainful.serve.middleware import Middleware, Receive, Scope, Send
from gainful.serve.model_slot import ModelSlot, Served
from gainful.serve.monitoring import CONTENT_TYPE, Metrics, log, log_event
from gainful.serve.page import page
from gainful.serve.plain_bodies import compile_reader
from gainful.serve.routes_page import routes_page
from gainful.serve.scoring import Answer, Job, NotQuickError, OverTimeError, TooManyRowsError
from gainful.serve.settings import Settings
from gainful.serve.workers import POST_EVERY, Place

REFUSALS = {
    400: "The body is not of its Content-Type.",
    401: "The token is missing or wrong.",
    403: "The Host header names another machine, or the route needs a server with a token.",
    408: "The body took too long to arrive.",
    413: "The body has too many bytes or too many documents.",
    415: "The Content-Type is none of those above.",
    422: "The body can be read, but the model cannot use it.",
    503: "Too busy, or the request took too long; try again.",
}
POST_REFUSALS = (400, 401, 403, 408, 413, 415, 422, 503)
GET_REFUSALS = (401, 403, 503)
THREAD = "gainful-request"
QUICK_BODY = 256 << 10  # bytes, read and scored by a linear model within a millisecond

Work = Callable[[Job, bytes], Answer]
POSTS: dict[str, Work] = {"/rank": Job.rank, "/score": Job.score, "/pair": Job.pair}
FIRST, SECOND = "/a", "/b"  # prefixes of the same routes for one of two models
DESCRIBED: dict[Work, tuple[str, type[BaseModel], type[BaseModel]]] = {  # summary, answer, request
    Job.rank: ("Rank the documents of one query or of several", schema.RankAnswer, schema.RankRequest),
    Job.score: ("Score rows", schema.ScoreAnswer, schema.ScoreRequest),
    Job.pair: ("Why is document a above document b", schema.PairAnswer, schema.PairRequest),
}
TAKE_MATRICES = (Job.rank, Job.score)
JSON, NPY = b"application/json", b"application/x-npy"
REFUSED = (HTTPException, GainfulError, TooManyRowsError)


class Post(NamedTuple):
    """What answers a request: some work with the model of a slot, perhaps interleaved with another."""

    work: Work
    slot: ModelSlot
    interleaver: Interleaver | None = None


class App:
    """The server as an ASGI application. ``model_slot``, ``metrics`` and ``draining`` are for its owner to read."""

    def __init__(self, model_path: str | Path, settings: Settings):
        self.settings = settings
        compile_reader()  # no request should wait for it
        self.model_slot = ModelSlot(model_path)
        self.interleaver = None if settings.interleave is None else Interleaver(self.model_slot.current, settings)
        self.second_slot = self._second_slot()
        self.metrics = Metrics()
        self.metrics.loads["ok"] += 1
        self.draining = False
        self._place: Place | None = None  # among several workers
        self._pool = ThreadPoolExecutor(settings.threads, thread_name_prefix=THREAD)
        self._posts = self._all_posts()
        self.api = self._routes()
        self._post_routes = {
            path: route for route in self.api.routes if (path := getattr(route, "path", "")) in self._posts
        }
        self._middleware = Middleware(self._dispatch, settings, self.metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._middleware(scope, receive, send)

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Requests to compute something are answered here, and all others by FastAPI, which takes longer."""
        post = self._posts.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if post is None:
            await self.api(scope, receive, send)
            return
        scope["route"] = self._post_routes[scope["path"]]
        status, headers = 200, dict[str, str]()
        try:
            content = await self.compute(scope, receive, post)
        except REFUSED as error:
            status, line, headers = _refusal(scope, error)
            content = msgspec.json.encode({"error": line})
        head = [(b"content-length", b"%d" % len(content)), (b"content-type", b"application/json")]
        head += [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": content})

    def _second_slot(self) -> ModelSlot | None:
        if self.interleaver is not None:
            return self.interleaver.slot
        return None if self.settings.beside is None else ModelSlot(self.settings.beside)

    def _all_posts(self) -> dict[str, Post]:
        """Path → what answers it. With two models, each also answers alone."""
        posts = {path: Post(work, self.model_slot, self.interleaver) for path, work in POSTS.items()}
        if self.second_slot is not None:
            for prefix, slot in ((FIRST, self.model_slot), (SECOND, self.second_slot)):
                posts |= {prefix + path: Post(work, slot) for path, work in POSTS.items()}
        return posts

    # -- computing -----------------------------------------------------------------------------------------------------

    async def compute(self, scope: Scope, receive: Receive, post: Post) -> bytes:
        """Read the body and compute the answer, before the request's deadline."""
        work, slot, interleaver = post
        context, headers = scope["gainful"], dict(scope["headers"])
        deadline = context["start"] + self.settings.timeout
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != JSON and not (kind == NPY and work in TAKE_MATRICES):
            also = f", or a matrix of features as {NPY.decode()}" if work in TAKE_MATRICES else ""
            raise HTTPException(415, f"the body must be JSON, with the header Content-Type: application/json{also}")
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                body = await self._body(headers, receive)
        except TimeoutError:
            line = f"the body did not arrive within {self.settings.timeout:g} s"
            raise HTTPException(408, line, {"connection": "close"}) from None
        served = slot.current
        experiment = None if interleaver is None else interleaver.experiment(served, context["request"])
        job = Job(served, deadline, self.settings.max_rows, experiment, kind == NPY)
        try:
            content, rows = self._compute_here(job, work, body) or await self._compute_in_thread(job, work, body)
        except (TimeoutError, OverTimeError):
            raise HTTPException(
                503, f"the request took more than {self.settings.timeout:g} s; send fewer documents or request less"
            ) from None
        self.metrics.rows += rows
        context |= {"rows": rows, "model": served.version}
        return content

    @staticmethod
    def _compute_here(job: Job, work: Work, body: bytes) -> Answer | None:
        """The answer to a request that costs less than waking a thread for it; None for others."""
        if work not in TAKE_MATRICES or len(body) > QUICK_BODY or not job.may_be_quick:
            return None
        job.is_quick = True
        try:
            return work(job, body)
        except NotQuickError:
            return None
        finally:
            job.is_quick = False  # a thread has time

    async def _compute_in_thread(self, job: Job, work: Work, body: bytes) -> Answer:
        future = asyncio.get_running_loop().run_in_executor(self._pool, work, job, body)
        return await asyncio.wait_for(future, max(0.0, job.deadline - time.monotonic()))

    @staticmethod
    def still_computing(seconds: float) -> bool:
        """Whether a thread is still working on a request after waiting this long. Idle threads have ended by then."""
        end = time.monotonic() + seconds
        found = [thread for thread in threading.enumerate() if thread.name.startswith(THREAD)]
        for thread in found:
            thread.join(max(0.0, end - time.monotonic()))
        return any(thread.is_alive() for thread in found)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """The body; refused as soon as it is known to be too long, with or without a Content-Length."""
        most = self.settings.max_body
        announced = headers.get(b"content-length", b"")
        parts, size, more = [], int(announced) if announced.isdigit() else 0, True
        if size <= most:
            size = 0
            while more and size <= most:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                more = message.get("more_body", False)
        if size > most:
            raise HTTPException(413, f"the body has more than the {most:,} bytes allowed; split it")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    # -- the model file ------------------------------------------------------------------------------------------------

    @property
    def _slots(self) -> list[ModelSlot]:
        return [self.model_slot] if self.second_slot is None else [self.model_slot, self.second_slot]

    async def reload(self, *, if_changed: bool = False) -> Served:
        """Load the model files as they are now; a GainfulError says why an old model stays."""
        refusal: GainfulError | None = None
        for slot in self._slots:
            before = slot.current
            try:
                served = await asyncio.to_thread(slot.reload, if_changed=if_changed)
            except GainfulError as error:
                self.metrics.loads["refused"] += 1
                refusal = refusal or error
            else:
                self.metrics.loads["ok"] += served is not before
        if refusal is not None:
            raise refusal
        return self.model_slot.current

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.settings.watch)
            try:
                if await asyncio.to_thread(lambda: any(slot.has_changed() for slot in self._slots)):
                    with suppress(GainfulError):  # the log and /model say why
                        await self.reload(if_changed=True)
            except Exception:
                log.exception("watching the model file failed")

    # -- workers -------------------------------------------------------------------------------------------------------

    def take_place(self, place: Place, reloaded: bool) -> None:
        """From now on this is one of several workers, which count together.

        If the others have ``reloaded`` the model since the start, this one does too.
        """
        self._place = place
        place.resume(self.metrics)
        if reloaded or self.settings.watch > 0:
            for slot in self._slots:
                with suppress(GainfulError):  # the log and /model say why
                    slot.reload(if_changed=True)

    async def _post_counts(self, place: Place) -> None:
        """Keep the posted counts current, and end with the parent."""
        while place.has_parent():
            place.post(self.metrics)
            await asyncio.sleep(POST_EVERY)
        signal.raise_signal(signal.SIGTERM)

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        for slot in self._slots:
            log_event("model loaded", version=slot.current.version, ranker=slot.current.ranker)
        tasks = [asyncio.create_task(self._watch())] if self.settings.watch > 0 else []
        if self._place is not None:
            tasks.append(asyncio.create_task(self._post_counts(self._place)))
        yield
        for task in tasks:
            task.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
        log_event("stopped")

    # -- routes --------------------------------------------------------------------------------------------------------

    def _routes(self) -> FastAPI:
        api = FastAPI(
            title="gainful",
            version=__version__,
            description="Ranks documents by a trained model.",
            docs_url=None,  # its pages load scripts from the network; /docs below is ours
            redoc_url=None,
            redirect_slashes=False,
            lifespan=self._lifespan,
        )
        for kind in REFUSED:
            api.add_exception_handler(kind, _answer_error)
        api.add_exception_handler(Exception, _answer_failure)
        self._add_posts(api)
        self._add_gets(api)
        api.openapi = lambda: _openapi(api)  # type: ignore[method-assign]
        return api

    def _add_posts(self, api: FastAPI) -> None:
        async def compute(request: Request) -> Response:  # under a root_path; :meth:`_dispatch` answers the others
            post = self._posts[request.scope["route"].path]
            return Response(await self.compute(request.scope, request.receive, post), media_type="application/json")

        for path, post in self._posts.items():
            api.add_api_route(path, compute, methods=["POST"], **_describe(path, post.work))

        @api.post(
            "/reload",
            summary="Load the model file as it is now",
            responses=_answers(schema.StateAnswer, (401, 403, 422, 503)),
        )
        async def reload() -> Response:
            if self.settings.token is None:
                raise HTTPException(
                    403, "reloading by request needs a server with a token; a changed file is loaded anyway"
                )
            served = await self.reload()
            if self._place is not None:
                self._place.reload_all()
            return JSONResponse({"status": "loaded", "model_version": served.version})

    def _add_gets(self, api: FastAPI) -> None:
        @api.get("/", include_in_schema=False)
        async def home() -> Response:
            content, policy = page()
            return HTMLResponse(content, headers={"content-security-policy": policy})

        @api.get("/docs", include_in_schema=False)
        async def docs() -> Response:
            content, policy = routes_page(api.openapi())
            return HTMLResponse(content, headers={"content-security-policy": policy})

        @api.get("/model", summary="The model in use", responses=_answers(schema.ModelAnswer, GET_REFUSALS))
        async def model() -> Response:
            return JSONResponse(self._model_answer())

        @api.get("/health", summary="Whether the server is alive", responses=_answers(schema.StateAnswer, (403,)))
        async def health() -> Response:
            return JSONResponse({"status": "alive"})

        @api.get("/ready", summary="Whether it accepts requests", responses=_answers(schema.StateAnswer, (403, 503)))
        async def ready() -> Response:
            if self.draining:
                raise HTTPException(503, "the server is shutting down")
            return JSONResponse({"status": "ready", "model_version": self.model_slot.current.version})

        answers: dict[int | str, dict[str, Any]] = {
            200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus text format."}
        }

        @api.get(
            "/metrics",
            summary="Counters for Prometheus",
            responses=answers | _refusals((401, 403)),
            response_class=PlainTextResponse,
        )
        async def metrics() -> Response:
            served = self.model_slot.current
            impressions = None if self.interleaver is None else self.interleaver.log.counts
            labels = {"version": served.version, "ranker": served.ranker}
            counts = self.metrics if self._place is None else self._place.total(self.metrics)
            text = counts.text(labels, served.loaded_at, impressions)
            return Response(text, media_type=CONTENT_TYPE)

    def _model_answer(self) -> dict[str, Any]:
        second = self.second_slot
        return {
            **_model_facts(self.model_slot),
            "limits": {name: getattr(self.settings, name) for name in ("max_body", "max_rows", "timeout")},
            "interleaved": None if self.interleaver is None else self.interleaver.facts(self.model_slot.current),
            "beside": None if second is None else _model_facts(second),
        }


def _model_facts(slot: ModelSlot) -> dict[str, Any]:
    served = slot.current
    model, reason = served.model, served.why_no_contributions
    return {
        "model_version": served.version,
        "file": slot.path.name,
        "ranker": served.ranker,
        "parameters": plain(model._file_params()),
        "n_features": model.n_features_in_,
        "feature_names": list(served.names) if hasattr(model, "feature_names_in_") else None,
        "text_features": [served.names[j] for j in named_by_words(getattr(model, "categories_", None))],
        "accepts_missing": model.accepts_missing,
        "contributions": reason is None,
        "why_no_contributions": reason,
        "iterations": int(model.n_iter_),
        "loaded_at": datetime.fromtimestamp(served.loaded_at, UTC).isoformat(timespec="seconds"),
        "refused": slot.refusal,
    }


def create_app(model_path: str | Path, settings: Settings) -> App:
    """The application that serves a model file; the model is loaded immediately."""
    return App(model_path, settings)


# -- errors ------------------------------------------------------------------------------------------------------------


async def _answer_error(request: Request, error: Exception) -> Response:
    """Answer a refusal as JSON with one line."""
    status, line, headers = _refusal(request.scope, error)
    return JSONResponse({"error": line}, status, headers)


def _refusal(scope: Scope, error: Exception) -> tuple[int, str, dict[str, str]]:
    """Status, line and headers of a refusal; the line is kept for the log."""
    headers: dict[str, str] = {}
    if isinstance(error, HTTPException):
        status, line = error.status_code, str(error.detail)
        if status in (404, 405):
            problem = "no such path" if status == 404 else f"this path does not accept {scope['method']}"
            line = f"{problem}; /openapi.json lists the paths and their methods"
        headers |= error.headers or {}
    elif isinstance(error, TooManyRowsError):
        status, line = 413, str(error)
    else:
        line = " ".join(str(error).split())
        status = 400 if isinstance(error, schema.NotReadableError) else 422
    if status == 503:
        headers["retry-after"] = "1"
    scope["gainful"]["error"] = line
    return status, line, headers


async def _answer_failure(request: Request, error: Exception) -> Response:
    """Answer a fault of the server: the middleware logs it, the client gets the id to find it by."""
    line = f"internal error; see the server's log under {request.scope['gainful']['request']}"
    request.scope["gainful"]["error"] = line
    return JSONResponse({"error": line}, 500)


# -- OpenAPI -----------------------------------------------------------------------------------------------------------


def _refusals(statuses: tuple[int, ...]) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": schema.ErrorAnswer, "description": REFUSALS[status]} for status in statuses}


def _answers(model: type, statuses: tuple[int, ...]) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model}, **_refusals(statuses)}


def _describe(path: str, work: Work) -> dict[str, Any]:
    """What OpenAPI says about a route that reads its body itself: FastAPI would read it whole, however long."""
    summary, answer, request = DESCRIBED[work]
    for prefix, which in ((FIRST, "the first"), (SECOND, "the second")):
        if path.startswith(f"{prefix}/"):
            summary = f"{summary}, by {which} of two models"
    body: dict[str, Any] = {"application/json": {"schema": {"$ref": f"#/components/schemas/{request.__name__}"}}}
    if work in TAKE_MATRICES:
        matrix = {"type": "string", "format": "binary", "description": "A matrix of features, from numpy.save."}
        body[NPY.decode()] = {"schema": matrix}
    return {
        "name": work.__name__,
        "summary": summary,
        "responses": _answers(answer, POST_REFUSALS),
        "openapi_extra": {"requestBody": {"required": True, "content": body}},
    }


def _openapi(api: FastAPI) -> dict[str, Any]:
    if api.openapi_schema is None:
        described = get_openapi(title=api.title, version=api.version, description=api.description, routes=api.routes)
        requests = [request for _, _, request in DESCRIBED.values()]
        _, found = models_json_schema(
            [(kind, "validation") for kind in requests], ref_template="#/components/schemas/{model}"
        )
        parts = described.setdefault("components", {})
        parts.setdefault("schemas", {}).update(found["$defs"])
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        described["security"] = [{"token": []}, {}]
        api.openapi_schema = described
    return api.openapi_schema
