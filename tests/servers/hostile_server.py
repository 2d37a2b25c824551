"""A stdio server that answers in every wrong way there is: `hostile_server.py [--init MODE] [--list MODE]`.

Standard library only. Tools: `echo`, and `trouble`, which answers as its `text` names: each answer is bytes, in which
`ID` stands for the id of the call and `OK` for a whole answer "fine" to it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

OUT = sys.stdout.buffer
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [{"name": "echo", "inputSchema": SCHEMA}, {"name": "trouble", "inputSchema": SCHEMA}]


def answer(body: str) -> bytes:
    """A line with the call's envelope around `body`."""
    return b'{"jsonrpc":"2.0","id":ID,' + body.encode() + b"}\n"


def result(value: str) -> bytes:
    return answer(f'"result":{value}')


def content(block: str) -> bytes:
    return result('{"content":[' + block + "]}")


def error(value: str) -> bytes:
    return answer(f'"error":{value}')


def with_id(value: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":' + value.encode() + b',"result":{"content":[]}}\n'


def progress(token: str, done: str) -> bytes:
    params = f'{{"progressToken":{token},"progress":{done}}}'
    return f'{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}\n'.encode()


FINE = '{"content":[{"type":"text","text":"fine"}]}'
WHOLE = b'{"jsonrpc":"2.0","id":ID,"result":' + FINE.encode() + b"}"

RAW: dict[str, bytes] = {
    # the id
    "id-missing": b'{"jsonrpc":"2.0","result":{"content":[]}}\n',
    "id-null": with_id("null"),
    "id-list": with_id("[1]"),
    "id-object": with_id('{"a":1}'),
    "id-true": with_id("true"),
    "id-fraction": with_id("1.5"),
    "id-infinite": with_id("1e999"),
    "id-other": with_id("999999") + b"OK\n",
    "id-huge": with_id("9" * 60) + b"OK\n",
    "id-negative": with_id("-1") + b"OK\n",
    "id-empty": with_id('""') + b"OK\n",
    "id-strange": with_id('"\\u0000\\ud800"') + b"OK\n",
    "id-in-text": content('{"type":"text","text":"\\"id\\":999"}'),
    "ids-of-nobody": b"".join(with_id(str(10**6 + n)) for n in range(2_000)) + b"OK\n",
    # the envelope
    "version-1": WHOLE.replace(b"2.0", b"1.0") + b"\n",
    "version-number": WHOLE.replace(b'"2.0"', b"2.0") + b"\n",
    "version-null": WHOLE.replace(b'"2.0"', b"null") + b"\n",
    "result-and-error": answer(f'"result":{FINE},"error":{{"code":1,"message":"both"}}'),
    "result-and-null-error": answer(f'"result":{FINE},"error":null'),
    "method-in-answer": answer(f'"method":"tools/call","result":{FINE}') + b"OK\n",
    "extra-fields": answer(f'"result":{FINE},"extra":{{"deep":[1,2,3]}}'),
    "key-twice": answer(f'"result":null,"result":{FINE}'),
    "key-case": b'{"JSONRPC":"2.0","ID":ID,"RESULT":{}}\n',
    "result-string": result('"fine"'),
    "result-number": result("7"),
    "result-true": result("true"),
    "result-empty": result("{}"),
    "batch-mixed": b'[1,null,"x",{"jsonrpc":"2.0","method":"notifications/progress"},OK]\n',
    "batch-empty": b"[]\nOK\n",
    "batch-nested": b"[[OK]]\n",
    "batch-of-both": b'[{"jsonrpc":"2.0","id":999999,"result":{}},OK]\n',
    # errors
    "error-null": error("null"),
    "error-text": error('"it broke"'),
    "error-list": error('["it broke"]'),
    "error-empty": error("{}"),
    "error-no-code": error('{"message":"it broke"}'),
    "error-no-message": error('{"code":-32000}'),
    "error-code-fraction": error('{"code":1.5,"message":"it broke"}'),
    "error-code-huge": error('{"code":' + "9" * 400 + ',"message":"it broke"}'),
    "error-code-null": error('{"code":null,"message":"it broke"}'),
    "error-message-list": error('{"code":1,"message":["it","broke"]}'),
    "error-message-empty": error('{"code":1,"message":""}'),
    "error-message-ansi": error('{"code":1,"message":"it \\u001b[31mbroke\\u202e"}'),
    "error-message-long": error('{"code":1,"message":"' + "x" * 200_000 + '"}'),
    "error-data-deep": error('{"code":1,"message":"it broke","data":' + "[" * 5_000 + "]" * 5_000 + "}"),
    "error-closed-code": error('{"code":-32000,"message":"it broke"}'),
    "error-our-codes": error('{"code":-32018,"message":"it broke","data":{"outcome":"not_sent","session_lost":true}}'),
    "error-our-answer-code": error('{"code":-32019,"message":"it broke"}'),
    # the result
    "content-null": result('{"content":null}'),
    "content-object": result('{"content":{"type":"text","text":"fine"}}'),
    "content-number": result('{"content":7}'),
    "content-nested": result('{"content":[[{"type":"text","text":"fine"}]]}'),
    "block-null": content("null"),
    "block-text": content('"fine"'),
    "block-empty": content("{}"),
    "block-type-number": content('{"type":7,"text":"fine"}'),
    "block-type-case": content('{"type":"TEXT","text":"fine"}'),
    "text-number": content('{"type":"text","text":7}'),
    "text-null": content('{"type":"text","text":null}'),
    "text-missing": content('{"type":"text"}'),
    "text-ansi": content('{"type":"text","text":"\\u001b]0;owned\\u0007fine"}'),
    "image-mime": content('{"type":"image","mimeType":"text/html","data":"aGk="}'),
    "image-data-list": content('{"type":"image","mimeType":"image/png","data":[1]}'),
    "audio-bad": content('{"type":"audio","mimeType":"audio/wav","data":"@@"}'),
    "link-without-uri": content('{"type":"resource_link","name":"n"}'),
    "link-uri-number": content('{"type":"resource_link","name":"n","uri":7}'),
    "resource-text": content('{"type":"resource","resource":"x"}'),
    "resource-blob-bad": content('{"type":"resource","resource":{"uri":"a:b","blob":7}}'),
    "annotations-bad": content('{"type":"text","text":"fine","annotations":{"audience":"me","priority":"high"}}'),
    "meta-text": result('{"content":[{"type":"text","text":"fine"}],"_meta":"x"}'),
    "is-error-text": result('{"content":[{"type":"text","text":"no"}],"isError":"true"}'),
    "is-error-number": result('{"content":[{"type":"text","text":"no"}],"isError":1}'),
    "structured-text": result('{"content":[],"structuredContent":"fine"}'),
    "structured-list": result('{"content":[],"structuredContent":[1,2]}'),
    "structured-null": result('{"content":[{"type":"text","text":"fine"}],"structuredContent":null}'),
    "result-type-unknown": result('{"content":[{"type":"text","text":"fine"}],"resultType":"maybe"}'),
    "result-type-number": result('{"content":[{"type":"text","text":"fine"}],"resultType":7}'),
    "input-required": result('{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}'),
    "many-blocks": result('{"content":[' + ",".join(['{"type":"text","text":"x"}'] * 20_000) + "]}"),
    # JSON
    "nan": content('{"type":"text","text":"fine","n":NaN}'),
    "nan-structured": result('{"content":[],"structuredContent":{"n":NaN,"i":-Infinity}}'),
    "number-huge": result('{"content":[],"structuredContent":{"n":1e999}}'),
    "trailing-comma": answer(f'"result":{FINE},'),
    "single-quotes": (b"{'jsonrpc': '2.0', 'id': ID, 'result': {}}\n"),
    "comment": answer(f'"result":{FINE} /* done */'),
    "unquoted": b"{jsonrpc: 2.0, id: ID}\n",
    "cut-in-string": b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"fi\n',
    "cut-in-escape": b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"fi\\u00\n',
    "cut-before-id": b'{"jsonrpc":"2.0","resu\n',
    "bad-escape": content('{"type":"text","text":"fi\\xne"}'),
    "raw-newline": b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"fi\nne"}]}}\n',
    "raw-control": content('{"type":"text","text":"fi\x01ne"}'),
    "line-separators": content('{"type":"text","text":"fi\u2028\u2029\u0085ne"}'),
    "surrogate-key": result('{"content":[{"type":"text","text":"fine"}],"\\ud800":1}'),
    "deep-object": result('{"a":' * 50_000 + "1" + "}" * 50_001),
    "deep-blocks": content('{"type":"text","text":"fine","x":' + "[" * 3_000 + "]" * 3_000 + "}"),
    "many-keys": result("{" + ",".join(f'"k{n}":1' for n in range(50_000)) + "}"),
    # framing
    "spaces-around": b"  \t OK \t \n",
    "blank-lines": b"\n\n\r\n   \n\t\nOK\n\n\n",
    "crlf": b"OK\r\n",
    "no-newline": b"OK",
    "content-length": b"Content-Length: 75\r\nContent-Type: application/json\r\n\r\nOK",
    "event-stream": b"event: message\ndata: OK\n\n",
    "record-separator": b"\x1eOK\n",
    "form-feed": b"\x0cOK\x0c\n",
    "bom": b"\xef\xbb\xbfOK\n",
    "nul-before": b"\0\0\0OK\n",
    "nul-after": b"OK\0\0\n",
    "two-on-a-line": b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}OK\n',
    "answer-then-junk": b"OK trailing words\n",
    "junk-then-answer": b"DEBUG: OK\n",
    "prefix": b"[2026-11-22 10:00:00] OK\n",
    "ansi-around": b"\x1b[32mOK\x1b[0m\n",
    "echo-of-the-request": b'recv {"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{}}\nOK\n',
    "cut-echo-of-the-request": b'recv {"jsonrpc":"2.0","id":ID,"method":"tools/call","par...\nOK\n',
    "utf-16": WHOLE.decode().encode("utf-16") + b"\n",
    "latin-1": content('{"type":"text","text":"caf\u00e9"}').decode().encode("latin-1"),
    "overlong-utf-8": content('{"type":"text","text":"XX"}').replace(b"XX", b"\xc0\xaf"),
    "random-bytes": bytes(range(256)) * 40 + b"\nOK\n",
    "html": b"<!DOCTYPE html><html><body>Not found</body></html>\nOK\n",
    "traceback": b'Traceback (most recent call last):\n  File "x.py", line 1\nKeyError: 1\nOK\n',
    "long-junk": b"x" * 3_000_000 + b"\nOK\n",
    "many-junk": b"junk\n" * 50_000 + b"OK\n",
    "pretty": json.dumps(json.loads(WHOLE.replace(b"ID", b"0")), indent=4).encode().replace(b'"id": 0', b'"id": ID')
    + b"\n",
    "pretty-cut": b'{\n  "jsonrpc": "2.0",\n  "id": ID,\nOK\n',
    # what nobody asked for
    "answer-twice": b"OK\n" + result('{"content":[{"type":"text","text":"second"}]}'),
    "error-after-answer": b"OK\n" + error('{"code":1,"message":"late"}'),
    "cancels-us": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID}}\nOK\n',
    "request-with-our-id": b'{"jsonrpc":"2.0","id":ID,"method":"ping"}\nOK\n',
    "request-id-null": b'{"jsonrpc":"2.0","id":null,"method":"ping"}\nOK\n',
    "request-id-list": b'{"jsonrpc":"2.0","id":[1],"method":"ping"}\nOK\n',
    "request-no-params": b'{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage"}\nOK\n',
    "request-params-list": b'{"jsonrpc":"2.0","id":"q","method":"roots/list","params":[1]}\nOK\n',
    "request-method-number": b'{"jsonrpc":"2.0","id":"q","method":7}\nOK\n',
    "request-method-empty": b'{"jsonrpc":"2.0","id":"q","method":""}\nOK\n',
    "request-initialize": b'{"jsonrpc":"2.0","id":"q","method":"initialize","params":{}}\nOK\n',
    "notification-unknown": b'{"jsonrpc":"2.0","method":"notifications/made-up","params":{"a":1}}\nOK\n',
    "notification-params-list": b'{"jsonrpc":"2.0","method":"notifications/progress","params":[1,2]}\nOK\n',
    "progress-of-nobody": progress('"x"', "1") + b"OK\n",
    "progress-nan": progress("ID", "NaN") + b"OK\n",
    "progress-text": progress("ID", '"x"') + b"OK\n",
    "progress-backwards": b"".join(progress("ID", str(-n)) for n in range(500)) + b"OK\n",
    "log-bad-level": b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":7,"data":null}}\nOK\n',
    "log-no-params": b'{"jsonrpc":"2.0","method":"notifications/message"}\nOK\n',
    "updated-of-nobody": b'{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":["x"]}}\nOK\n',
    "changed-with-params": b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":7}}\nOK\n',
    "initialized-back": b'{"jsonrpc":"2.0","method":"notifications/initialized"}\nOK\n',
    "requests-many": b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"made/up"}\n' % n for n in range(3_000)) + b"OK\n",
    "notifications-many": b'{"jsonrpc":"2.0","method":"notifications/made-up"}\n' * 3_000 + b"OK\n",
}


def parts(count: int) -> str:
    """JSON of `count` small objects."""
    return "[" + ",".join(f'{{"n":{number},"t":"some text","l":[1,2]}}' for number in range(count)) + "]"


LARGE: dict[str, Callable[[], bytes]] = {
    "large-text": lambda: content(f'{{"type":"text","text":"{"x" * 4_000_000}"}}'),
    "large-text-escaped": lambda: content('{"type":"text","text":"' + "\\u00e9" * 600_000 + '"}'),
    "large-text-wide": lambda: content('{"type":"text","text":"' + "\u20ac" * 1_300_000 + '"}'),
    "large-many-texts": lambda: content(",".join(['{"type":"text","text":"' + "x" * 400 + '"}'] * 9_000)),
    "large-many-bad-blocks": lambda: content(",".join(['{"type":"text","text":7,"x":"' + "x" * 400 + '"}'] * 9_000)),
    "large-structured": lambda: result(f'{{"content":[],"structuredContent":{{"all":{parts(100_000)}}}}}'),
    "large-structured-bad": lambda: result(f'{{"content":7,"structuredContent":{{"all":{parts(100_000)}}}}}'),
    "large-unknown-block": lambda: content(f'{{"type":"hologram","all":{parts(100_000)}}}'),
    "large-image": lambda: content(f'{{"type":"image","mimeType":"image/png","data":"{"QUJD" * 1_000_000}"}}'),
    "large-image-bad": lambda: content(f'{{"type":"image","mimeType":"image/png","data":"{"QU@D" * 1_000_000}"}}'),
    "large-blob": lambda: content(f'{{"type":"resource","resource":{{"uri":"a:b","blob":"{"QUJD" * 1_000_000}"}}}}'),
    "large-error-message": lambda: error(f'{{"code":1,"message":"{"x" * 4_000_000}"}}'),
    "large-error-data": lambda: error(f'{{"code":1,"message":"it broke","data":{parts(100_000)}}}'),
    "large-error-without-message": lambda: error(f'{{"code":1,"all":{parts(100_000)}}}'),
    "large-error-list": lambda: error(parts(100_000)),
    "large-meta": lambda: result(f'{{"content":[{{"type":"text","text":"fine"}}],"_meta":{{"all":{parts(100_000)}}}}}'),
    "large-unknown-fields": lambda: answer(f'"result":{FINE},"more":{parts(100_000)}'),
    "large-keys": lambda: result("{" + ",".join(f'"k{number}":1' for number in range(300_000)) + "}"),
    "large-cut": lambda: answer(f'"result":{{"content":{parts(100_000)}')[:-3] + b"\n",
    "large-bad-at-the-end": lambda: answer(f'"result":{{"content":[],"all":{parts(100_000)},}}'),
    "large-spaces": lambda: answer('"result":' + " " * 4_000_000 + FINE),
    "large-pretty": lambda: (
        json.dumps({"jsonrpc": "2.0", "id": 0, "result": {"content": [], "a": json.loads(parts(60_000))}}, indent=2)
        .encode()
        .replace(b'"id": 0', b'"id": ID')
        + b"\n"
    ),
    "large-batch": lambda: b"[" + b",".join([with_id("999999").strip()] * 60_000) + b",OK]\n",
    "large-junk-lines": lambda: b"some words that are no message\n" * 130_000 + b"OK\n",
    "large-brace-lines": lambda: b"{not JSON either}\n" * 130_000 + b"OK\n",
    "large-answers-of-nobody": lambda: with_id("999999") * 60_000 + b"OK\n",
    "large-notifications": lambda: (
        b'{"jsonrpc":"2.0","method":"notifications/made-up","params":{"a":1}}\n' * 60_000 + b"OK\n"
    ),
    "large-log-messages": lambda: (
        b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n' * 50_000 + b"OK\n"
    ),
    "large-log-message": lambda: (
        f'{{"jsonrpc":"2.0","method":"notifications/message","params":{{"data":{parts(100_000)}}}}}\nOK\n'.encode()
    ),
    "large-notification": lambda: (
        f'{{"jsonrpc":"2.0","method":"notifications/made-up","params":{{"data":{parts(100_000)}}}}}\nOK\n'.encode()
    ),
    "large-request": lambda: (
        f'{{"jsonrpc":"2.0","id":"q","method":"made/up","params":{{"data":{parts(100_000)}}}}}\nOK\n'.encode()
    ),
    "large-method": lambda: b'{"jsonrpc":"2.0","id":"q","method":"' + b"x" * 4_000_000 + b'"}\nOK\n',
    "large-id": lambda: b'{"jsonrpc":"2.0","id":"' + b"x" * 4_000_000 + b'","result":{}}\nOK\n',
    "large-progress": lambda: progress("ID", "1") * 10_000 + b"OK\n",
    "large-changes": lambda: b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n' * 60_000 + b"OK\n",
    "large-deep": lambda: content('{"type":"text","text":"fine","x":' + "[" * 2_000_000 + "]" * 2_000_000 + "}"),
    "large-number": lambda: result('{"content":[],"structuredContent":{"n":' + "9" * 4_000_000 + "}}"),
    "large-and-words-before": lambda: b"DEBUG: " + content(f'{{"type":"text","text":"{"x" * 4_000_000}"}}'),
}
"""Answers of some megabytes, each made when it is asked for."""


def filled(data: bytes, request_id: Any) -> bytes:
    return data.replace(b"OK", WHOLE).replace(b"ID", json.dumps(request_id).encode())


# --- what is done instead of, or before, an answer; the answer "fine" follows where the process still can ---


def drip(request_id: Any) -> None:
    for byte in filled(b"OK\n", request_id):
        write(bytes([byte]))
        time.sleep(0.002)


def in_pieces(request_id: Any) -> None:
    data = filled(content('{"type":"text","text":"f\u00efne \U0001f600"}'), request_id)
    for start in range(0, len(data), 7):
        write(data[start : start + 7])


def deaf(_: Any) -> None:
    """Reads nothing for a while, as much as it is sent."""
    time.sleep(0.5)


def fork_keeps_the_pipe(_: Any) -> None:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.DEVNULL)
    os._exit(3)


def leave_children(_: Any) -> None:
    for _number in range(3):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.DEVNULL)


def close_stdin(_: Any) -> None:
    os.close(0)


def signal_self(number: int) -> Callable[[Any], None]:
    def act(_: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        time.sleep(5)

    return act


def become_another_program(_: Any) -> None:
    os.execv("/bin/echo", ["echo", "I am something else now"])


def shout(_: Any) -> None:
    for _number in range(1_600):
        os.write(2, b"\x1b[31mnoise\r" * 5_957)


def steps(*acts: Callable[[Any], object]) -> Callable[[Any], None]:
    def act(request_id: Any) -> None:
        for one in acts:
            one(request_id)

    return act


DEEDS: dict[str, Callable[[Any], object]] = {
    "drip": drip,
    "in-pieces": in_pieces,
    "deaf-for-a-while": deaf,
    "exit-0": lambda _: os._exit(0),
    "exit-1": lambda _: os._exit(1),
    "exit-255": lambda _: os._exit(255),
    "answer-and-exit": steps(lambda i: write(filled(b"OK\n", i)), lambda _: os._exit(0)),
    "half-answer-and-exit": steps(lambda i: write(filled(b'{"jsonrpc":"2.0","id":ID,"resu', i)), lambda _: os._exit(1)),
    "answer-without-newline-and-exit": steps(lambda i: write(filled(b"OK", i)), lambda _: os._exit(0)),
    "last-words-and-exit": steps(lambda _: os.write(2, b"out of memory\n"), lambda _: os._exit(137)),
    "abort": lambda _: os.abort(),
    "sigterm": signal_self(signal.SIGTERM),
    "sigpipe": signal_self(signal.SIGPIPE),
    "sighup": signal_self(signal.SIGHUP),
    "sigxcpu": signal_self(24),
    "become-another-program": become_another_program,
    "close-stdout": steps(lambda _: os.close(1), lambda _: time.sleep(600)),
    "close-stderr": lambda _: os.close(2),
    "close-stdin-and-answer": close_stdin,
    "close-all": steps(lambda _: os.closerange(0, 3), lambda _: time.sleep(600)),
    "fork-keeps-the-pipe": fork_keeps_the_pipe,
    "leave-children": leave_children,
    "stderr-100-mb": shout,
}
"""Done before the plain answer, which those that answered already do not give again."""
ANSWERED = {"drip", "in-pieces"}


# --- connecting ---

INITIALIZE: dict[str, bytes] = {
    "capabilities-null": result(
        '{"protocolVersion":"2025-06-18","capabilities":null,"serverInfo":{"name":"s","version":"1"}}'
    ),
    "capabilities-list": result(
        '{"protocolVersion":"2025-06-18","capabilities":[],"serverInfo":{"name":"s","version":"1"}}'
    ),
    "capabilities-lying": result(
        '{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{},"resources":{},"completions":{},'
        '"logging":{}},"serverInfo":{"name":"s","version":"1"}}'
    ),
    "capabilities-odd": result(
        '{"protocolVersion":"2025-06-18","capabilities":{"tools":true,"made":{"up":1}},'
        '"serverInfo":{"name":"s","version":"1"}}'
    ),
    "info-text": result('{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":"s"}'),
    "info-ansi": result(
        '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"\\u001b[2Js","version":"1"}}'
    ),
    "instructions-number": result(
        '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},'
        '"instructions":7}'
    ),
    "instructions-huge": result(
        '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},'
        '"instructions":"' + "x" * 2_000_000 + '"}'
    ),
    "version-oldest": result(
        '{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'
    ),
    "version-missing": result('{"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'),
    "version-null": result(
        '{"protocolVersion":null,"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'
    ),
    "version-number": result('{"protocolVersion":20250618,"capabilities":{},"serverInfo":{"name":"s","version":"1"}}'),
    "version-empty": result('{"protocolVersion":"","capabilities":{},"serverInfo":{"name":"s","version":"1"}}'),
    "version-future": result(
        '{"protocolVersion":"2099-01-01","capabilities":{},"serverInfo":{"name":"s","version":"1"}}'
    ),
    "result-null": result("null"),
    "result-list": result("[]"),
    "result-text": result('"welcome"'),
    "result-empty": result("{}"),
    "no-result": b'{"jsonrpc":"2.0","id":ID}\n',
    "error-empty": error("{}"),
    "error-text": error('"go away"'),
    "error-null": error("null"),
    "error-versions": error('{"code":-32022,"message":"no","data":{"supported":["1999-01-01"]}}'),
    "error-versions-odd": error('{"code":-32022,"message":"no","data":"x"}'),
    "cut": b'{"jsonrpc":"2.0","id":ID,"result":{"proto\n',
    "id-missing": b'{"jsonrpc":"2.0","result":{}}\n',
    "id-text": b'{"jsonrpc":"2.0","id":"ID","result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},'
    b'"serverInfo":{"name":"s","version":"1"}}}\n',
    "http": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    "help": b"usage: server [-h] COMMAND\n\nserver: error: no command given\n",
    "batch": b'[{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},'
    b'"serverInfo":{"name":"s","version":"1"}}}]\n',
    "asks-first": b'{"jsonrpc":"2.0","id":1,"method":"roots/list"}\n{"jsonrpc":"2.0","id":2,"method":"ping"}\n'
    + result('{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'),
    "twice": result(
        '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'
    )
    * 2,
    "no-newline": result(
        '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'
    )[:-1],
}
PLAIN = INITIALIZE["version-oldest"].replace(b"2024-11-05", b"2025-06-18")

DISCOVER: dict[str, bytes] = {
    "discover-null": result("null"),
    "discover-empty": result("{}"),
    "discover-text": result('"modern"'),
    "discover-cut": b'{"jsonrpc":"2.0","id":ID,"result":{"supp\n',
    "discover-junk": b"what is server/discover?\n",
    "discover-versions-odd": result('{"supportedVersions":"2026-07-28","capabilities":{},"serverInfo":{}}'),
    "discover-only-old": result(
        '{"supportedVersions":["2025-06-18"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private",'
        '"resultType":"complete"}'
    ),
    "discover-error-text": error('"no"'),
    "discover-error-versions": error('{"code":-32022,"message":"no","data":{"supported":["2025-06-18"]}}'),
    "discover-error-versions-odd": error('{"code":-32022,"message":"no","data":{"supported":7}}'),
}


def tools(items: str, rest: str = "") -> bytes:
    good = ",".join(json.dumps(tool) for tool in TOOLS)
    return result(f'{{"tools":[{good}{"," if items else ""}{items}]{rest}}}')


LISTS: dict[str, bytes] = {
    "tools-missing": result("{}"),
    "tools-null": result('{"tools":null}'),
    "tools-object": result('{"tools":{"echo":{}}}'),
    "list-result-null": result("null"),
    "list-error-empty": error("{}"),
    "list-cut": b'{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"na\n',
    "tool-null": tools("null"),
    "tool-list": tools("[]"),
    "tool-name-empty": tools('{"name":"","inputSchema":{"type":"object"}}'),
    "tool-name-null": tools('{"name":null,"inputSchema":{"type":"object"}}'),
    "tool-name-ansi": tools('{"name":"\\u001b[2Jx","inputSchema":{"type":"object"}}'),
    "tool-name-long": tools('{"name":"' + "n" * 50_000 + '","inputSchema":{"type":"object"}}'),
    "tool-name-surrogate": tools('{"name":"a\\ud800","inputSchema":{"type":"object"}}'),
    "tool-schema-true": tools('{"name":"x","inputSchema":true}'),
    "tool-schema-null": tools('{"name":"x","inputSchema":null}'),
    "tool-schema-list": tools('{"name":"x","inputSchema":[]}'),
    "tool-schema-deep": tools(
        '{"name":"x","inputSchema":{"type":"object","properties":' + '{"a":' * 3_000 + "1" + "}" * 3_003
    ),
    "tool-description-number": tools('{"name":"x","inputSchema":{"type":"object"},"description":7}'),
    "tool-description-huge": tools(
        '{"name":"x","inputSchema":{"type":"object"},"description":"' + "x" * 5_000_000 + '"}'
    ),
    "tool-annotations-odd": tools('{"name":"x","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"yes"}}'),
    "tool-icons-odd": tools('{"name":"x","inputSchema":{"type":"object"},"icons":"http://127.0.0.1:9/x.png"}'),
    "tool-output-schema-odd": tools('{"name":"x","inputSchema":{"type":"object"},"outputSchema":"text"}'),
    "tool-execution-odd": tools('{"name":"x","inputSchema":{"type":"object"},"execution":{"taskSupport":"maybe"}}'),
    "cursor-number": tools("", ',"nextCursor":7'),
    "cursor-empty": tools("", ',"nextCursor":""'),
    "cursor-object": tools("", ',"nextCursor":{"page":2}'),
    "ttl-negative": tools("", ',"ttlMs":-5,"cacheScope":"private"'),
    "ttl-huge": tools("", ',"ttlMs":1e300'),
    "ttl-text": tools("", ',"ttlMs":"soon","cacheScope":7'),
}


# --- main ---


def write(data: bytes) -> None:
    OUT.write(data)
    OUT.flush()


def call(request: dict[str, Any]) -> None:
    name, arguments = request["params"]["name"], request["params"].get("arguments") or {}
    mode = str(arguments.get("text"))
    if name != "trouble":
        text = json.dumps(mode)
        write(filled(content(f'{{"type":"text","text":{text}}}'), request["id"]))
    elif mode in RAW:
        write(filled(RAW[mode], request["id"]))
    elif mode in LARGE:
        write(filled(LARGE[mode](), request["id"]))
    else:
        DEEDS[mode](request["id"])
        if mode not in ANSWERED:
            write(filled(b"OK\n", request["id"]))


def handle(request: dict[str, Any]) -> None:
    method, request_id = request.get("method"), request.get("id")
    if method == "notifications/initialized" and OPTIONS.init == "dies-when-initialized":
        os._exit(4)
    if request_id is None or method is None:
        return
    if method == "server/discover":
        write(filled(DISCOVER.get(OPTIONS.init, error('{"code":-32601,"message":"no"}')), request_id))
    elif method == "initialize":
        write(filled(INITIALIZE.get(OPTIONS.init, PLAIN), request_id))
    elif method == "tools/list":
        write(filled(LISTS.get(OPTIONS.list, tools("")), request_id))
    elif method == "tools/call":
        call(request)
    elif method == "ping":
        write(filled(result("{}"), request_id))
    else:
        write(filled(error('{"code":-32601,"message":"Method not found"}'), request_id))


PARSER = argparse.ArgumentParser()
PARSER.add_argument("--init", default="")
PARSER.add_argument("--list", default="")
OPTIONS = PARSER.parse_args(sys.argv[1:] if __name__ == "__main__" else [])


def main() -> None:
    while line := sys.stdin.buffer.readline():
        handle(json.loads(line))


if __name__ == "__main__":
    main()
