"""A receiver of OTLP over HTTP on loopback: keeps what it is sent, or misbehaves."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, TypeAlias

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

Behaviour: TypeAlias = Literal["good", "error", "garbage", "silent", "cut"]


class Receiver:
    """What came, decoded; `address` is for OTEL_EXPORTER_OTLP_ENDPOINT."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.spans: list[ProtoSpan] = []
        self.resources: list[Resource] = []
        self.metrics: set[str] = set()
        self.asked = 0
        self.ending = threading.Event()
        self._came = threading.Condition()
        self.address = ""

    def wait_for(self, name: str) -> None:
        """Until a span of this name has come; a failed assertion after a while."""
        with self._came:
            assert self._came.wait_for(lambda: any(span.name == name for span in self.spans), 30)

    def take(self, path: str, body: bytes) -> None:
        with self._came:
            self._take(path, body)
            self._came.notify_all()

    def _take(self, path: str, body: bytes) -> None:
        self.asked += 1
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resources.append(resource.resource)
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            request = ExportMetricsServiceRequest.FromString(body)
            self.metrics |= {
                metric.name
                for resource in request.resource_metrics
                for scope in resource.scope_metrics
                for metric in scope.metrics
            }


@contextmanager
def receiving(behaviour: Behaviour = "good") -> Iterator[Receiver]:
    receiver = Receiver(behaviour)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.take(self.path, body)
            match receiver.behaviour:
                case "silent":
                    receiver.ending.wait(60)
                case "cut":
                    self.connection.close()
                case "garbage":
                    self.wfile.write(b"\x00\xff not HTTP at all\r\n\r\n")
                case "error":
                    self.send_error(500)
                case "good":
                    self.send_response(200)
                    self.send_header("Content-Length", "0")
                    self.end_headers()

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.ending.set()
        server.shutdown()
        server.server_close()
        thread.join(10)
