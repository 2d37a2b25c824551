"""A stdio server whose tool calls run as tasks that end in every way: `task_server.py ERA [--log FILE]`.

Standard library only. ERA is `legacy` (2025-11-25, tasks as the client asks for them) or `modern` (the extension of
2026-07-28). The tools `only`, `able` and `never` differ in what they say of tasks; `text` names how the task goes. A
task goes on when it is asked after, so nothing depends on the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

parser = argparse.ArgumentParser()
parser.add_argument("era", choices=["legacy", "modern"])
parser.add_argument("--log", default=os.devnull)
parser.add_argument("--no-cancel", action="store_true")
parser.add_argument("--no-tasks", action="store_true")
OPTIONS = parser.parse_args()
IS_MODERN = OPTIONS.era == "modern"
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
POLLS = 2
"""How often a task is asked after until it ends."""

Message = dict[str, Any]
tasks: dict[str, Message] = {}
waiting: dict[str, Message] = {}
"""Requests for a result that is not there yet, by task."""


def log(line: str) -> None:
    with Path(OPTIONS.log).open("a") as file:
        file.write(line + "\n")


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def reply(request: Message, result: Any) -> None:
    extra = {"resultType": "complete"} if IS_MODERN and isinstance(result, dict) else {}
    send(id=request["id"], result=extra | result if isinstance(result, dict) else result)


def refuse(request: Message, message: str, code: int = -32602) -> None:
    send(id=request["id"], error={"code": code, "message": message})


def text(words: str, **more: Any) -> Message:
    return {"content": [{"type": "text", "text": words}]} | more


def state(task: Message, **more: Any) -> Message:
    """The task as the wire has it."""
    times = {"ttlMs": task["ttl"]} if IS_MODERN else {"ttl": task["ttl"]}
    if task["poll"] is not None:
        times["pollIntervalMs" if IS_MODERN else "pollInterval"] = task["poll"]
    status = {
        "status": task["status"],
        "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "x" if task["way"] == "silent" else str(task["polls"]),
    }
    words = {"statusMessage": task["message"]} if task["message"] else {}
    return {"taskId": task["id"]} | status | words | times | more


# --- how tasks go: each is asked after once more ---


def complete(task: Message) -> None:
    if task["polls"] >= POLLS:
        task["status"] = "completed"
    task["message"] = f"step {task['polls']}"


def fail(task: Message) -> None:
    task |= {"status": "failed", "message": "no more paper"}


def cancel(task: Message) -> None:
    task |= {"status": "cancelled", "message": "by the operator"}


def end(_: Message) -> None:
    log("dies")
    print("out of memory", file=sys.stderr, flush=True)
    os._exit(9)


def ask(task: Message) -> None:
    if "given" in task:
        complete(task)
    else:
        task["status"] = "input_required"


def nothing(_: Message) -> None:
    """It goes on."""


WAYS: dict[str, Callable[[Message], None]] = {
    "fail": fail,
    "fail-result": fail,
    "cancel": cancel,
    "die": end,
    "ask": ask,
    "never": nothing,
    "silent": nothing,
    "short": nothing,
    "unknown-status": lambda task: task.update(status="frobnicating\x1b[31m"),
    "no-status": lambda task: task.update(status=None),
    "wrong-id": lambda task: task.update(id="another"),
}


def begin(request: Message) -> None:
    way = request["params"]["arguments"].get("text", "")
    wanted = request["params"].get("task")
    if (wanted is None and not IS_MODERN) or way == "plain":
        if request["params"]["name"] == "only" and way != "plain":
            refuse(request, "only as a task", -32601)
        else:
            reply(request, text("a plain result"))
        return
    if wanted is not None:
        log(f"ttl {wanted['ttl']}")
    odd = {"poll-0": 0, "poll-negative": -5, "poll-text": "soon", "poll-late": 10**12, "notified": 60_000}
    task = {
        "id": f"task-{len(tasks)}",
        "way": way,
        "status": "completed" if way == "done" else "working",
        "message": "",
        "polls": 0,
        "poll": odd.get(way, None if way == "poll-none" else 50),
        "ttl": 1 if way == "short" else 60_000,
        "token": request["params"].get("_meta", {}).get("progressToken"),
    }
    tasks[task["id"]] = task
    seen = state(task) | ({"taskId": 7} if way == "no-id" else {})
    if IS_MODERN:
        send(id=request["id"], result={"resultType": "task"} | seen)
    else:
        reply(request, {"task": seen})
    tell(task)


def tell(task: Message) -> None:
    """What is said of a task unasked."""
    method = "notifications/tasks" if IS_MODERN else "notifications/tasks/status"
    if task["way"] == "notified":
        task["polls"] = POLLS
        send(method=method, params=state(task))
    if task["way"] == "storm":
        for _ in range(2_000):
            send(method=method, params=state(task))
    if task["way"] == "progress":
        send(method="notifications/progress", params={"progressToken": task["token"], "progress": 3, "total": 4})
    if task["way"] == "gone":  # whatever is sent meanwhile is never read
        time.sleep(0.5)
        os._exit(9)


def get(request: Message) -> None:
    task = tasks[request["params"]["taskId"]]
    if task["way"] == "lost":
        refuse(request, "Failed to retrieve task: Task not found")
        return
    if task["way"] == "not-a-task":
        reply(request, [1])
        return
    task["polls"] += 1
    WAYS.get(task["way"], complete)(task)
    more: Message = {}
    if IS_MODERN and task["status"] == "completed" and task["way"] != "no-result":
        more["result"] = outcome(task)
    if IS_MODERN and task["status"] == "failed":
        more["error"] = {"code": -32603, "message": "out of paper"}
    if IS_MODERN and task["status"] == "input_required":
        more["inputRequests"] = {"who": question()}
    reply(request, state(task, **more))


def outcome(task: Message) -> Any:
    if task["way"] == "bad-result":
        return {"content": [{"type": "text", "text": "good"}, {"type": "text"}, 5]}
    if task["way"] == "tool-error":
        return text("it went wrong", isError=True)
    return text(f"all done{task.get('given', '')}")


def result(request: Message) -> None:
    task = tasks[request["params"]["taskId"]]
    if task["status"] == "input_required":
        waiting["ask-" + task["id"]] = request
        send(id="ask-" + task["id"], **question())
    elif task["way"] == "fail":
        refuse(request, "out of paper", -32603)
    elif task["way"] == "fail-result":
        reply(request, text("half a page"))
    elif task["way"] == "no-result":
        reply(request, "nothing")
    else:
        reply(request, outcome(task))


def question() -> Message:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": schema}}


def answered(message: Message) -> None:
    """An answer to a question of ours: the task goes on, and its result is what was waited for."""
    request = waiting.pop(message["id"])
    task = tasks[request["params"]["taskId"]]
    if "error" in message:
        task |= {"status": "failed", "way": "fail"}
    else:
        task |= {"given": f" for {message['result'].get('content')}", "status": "completed"}
    result(request)


def update(request: Message) -> None:
    task = tasks[request["params"]["taskId"]]
    answers = request["params"]["inputResponses"]
    log(f"update {sorted(answers)}")
    task |= {"given": f" for {answers['who'].get('content')}", "status": "working"}
    reply(request, {})


def stop(request: Message) -> None:
    task = tasks[request["params"]["taskId"]]
    task["status"] = "cancelled"
    reply(request, {} if IS_MODERN else state(task))


def initialize(request: Message) -> None:
    if IS_MODERN:
        refuse(request, "no handshake here", -32601)
        return
    can: Message = {"requests": {"tools": {"call": {}}}} | ({} if OPTIONS.no_cancel else {"cancel": {}})
    capabilities: Message = {"tools": {}} | ({} if OPTIONS.no_tasks else {"tasks": can})
    info = {"name": "tasks", "version": "1"}
    reply(request, {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info})


def discover(request: Message) -> None:
    if not IS_MODERN:
        refuse(request, "Method not found", -32601)
        return
    meta = request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    log(f"extensions {sorted(meta.get('extensions', {}))}")
    capabilities: Message = {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
    versions: Message = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
    reply(request, versions | {"ttlMs": 0, "cacheScope": "private"})


def list_tools(request: Message) -> None:
    said = {"only": "required", "able": "optional", "never": "forbidden"}
    tools = [{"name": name, "inputSchema": SCHEMA, "execution": {"taskSupport": said[name]}} for name in said]
    if IS_MODERN:
        tools = [{key: value for key, value in tool.items() if key != "execution"} for tool in tools]
    reply(request, {"tools": tools, "ttlMs": 0, "cacheScope": "private"} if IS_MODERN else {"tools": tools})


METHODS: dict[str, Callable[[Message], None]] = {
    "initialize": initialize,
    "server/discover": discover,
    "tools/list": list_tools,
    "tools/call": begin,
    "tasks/get": get,
    "tasks/result": result,
    "tasks/update": update,
    "tasks/cancel": stop,
    "ping": lambda request: reply(request, {}),
}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            answered(message)
        elif "id" in message:
            log(message["method"])
            if (handle := METHODS.get(message["method"])) is None:
                refuse(message, f"no method {message['method']}", -32601)
            else:
                handle(message)


if __name__ == "__main__":
    main()
