"""A stdio server that answers in every wrong way there is: `hostile_server.py [--init MODE] [--list MODE]`.

Standard library only. Tools: `echo`, and `trouble`, which answers as its `text` names: each answer is bytes, in which
`ID` stands for the id of the call and `OK` for a whole answer "fine" to it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any

OUT = sys.stdout.buffer


class OPTIONS:
    """What `--init` and `--list` name."""

    GIVEN = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=False)) if __name__ == "__main__" else {}
    init = GIVEN.pop("--init", "")
    list = GIVEN.pop("--list", "")
    assert not GIVEN, f"no such options: {[*GIVEN]}"


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


def zipped(data: bytes) -> bytes:
    """`gzip.compress`, which takes longer to import than the rest of this server to run."""
    packer = zlib.compressobj(wbits=31)
    return packer.compress(data) + packer.flush()


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
    "compressed": zipped(WHOLE).replace(b"\n", b"") + b"\n",
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
    # what the rules say and others do
    "id-whole-fraction": with_id("ID.0"),
    "id-exponent": with_id("IDe0"),
    "id-as-text": with_id('"ID"'),
    "id-twice": b'{"jsonrpc":"2.0","id":999999,"id":ID,"result":{"content":[]}}\n',
    "id-first-last": b'{"result":' + FINE.encode() + b',"jsonrpc":"2.0","id":ID}\n',
    "id-nan": with_id("NaN") + b"OK\n",
    "id-minus-zero": with_id("-0") + b"OK\n",
    "ids-around-ours": b"".join(with_id(str(number)) for number in range(3)) + b"OK\n",
    "keys-escaped": b'{"\\u006asonrpc":"2.0","\\u0069d":ID,"\\u0072esult":' + FINE.encode() + b"}\n",
    "line-string": b'"fine"\nOK\n',
    "line-number": b"7\nOK\n",
    "line-true": b"true\nOK\n",
    "line-null": b"null\nOK\n",
    "answer-to-a-notification": b'{"jsonrpc":"2.0","id":null,"result":{}}\nOK\n',
    "error-to-a-notification": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no such method"}}\nOK\n',
    "answer-without-id-first": b'{"jsonrpc":"2.0","result":{}}\nOK\n',
    "parse-error": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"it broke"}}\n',
    "error-null-id-other-code": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"it broke"}}\n',
    "result-null-and-error": answer('"result":null,"error":{"code":1,"message":"it broke"}'),
    "error-number": error("7"),
    "error-true": error("true"),
    "error-false": error("false"),
    "error-code-text": error('{"code":"-32602","message":"it broke"}'),
    "error-code-true": error('{"code":true,"message":"it broke"}'),
    "error-code-zero": error('{"code":0,"message":"it broke"}'),
    "error-message-number": error('{"code":1,"message":7}'),
    "error-message-null": error('{"code":1,"message":null}'),
    "error-data-huge-number": error('{"code":1,"message":"it broke","data":' + "9" * 5_000 + "}"),
    **{
        f"error-code{code}": error(f'{{"code":{code},"message":"it broke"}}')
        for code in (-32700, -32600, -32601, -32602, -32603, -32001, -32002, -32003, -32004, -32020, -32021, -32022)
    },
    "error-code-32042": error('{"code":-32042,"message":"it broke","data":{"elicitations":7}}'),
    "error-code-32800": error('{"code":-32800,"message":"it broke"}'),
    "result-of-initialize": result('{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{}}'),
    "result-of-tools-list": result('{"tools":[]}'),
    "is-error-without-text": result('{"content":[],"isError":true}'),
    "is-error-false-as-text": result('{"content":[{"type":"text","text":"fine"}],"isError":"false"}'),
    "is-error-null": result('{"content":[{"type":"text","text":"fine"}],"isError":null}'),
    "input-required-for-ever": result('{"resultType":"input_required","requestState":"x"}'),
    "input-required-odd": result('{"resultType":"input_required","inputRequests":7,"requestState":[1]}'),
    "result-type-task": result('{"content":[{"type":"text","text":"fine"}],"resultType":"task"}'),
    "task-null": result('{"task":null}'),
    "task-odd": result('{"task":{"taskId":7}}'),
    "content-keyed": result('{"content":{"0":{"type":"text","text":"fine"}}}'),
    "content-true": result('{"content":true}'),
    "text-list": content('{"type":"text","text":["fi","ne"]}'),
    "text-nul": content('{"type":"text","text":"fi\\u0000ne"}'),
    "text-surrogates-turned": content('{"type":"text","text":"fi\\udc00\\ud800ne"}'),
    "text-noncharacter": content('{"type":"text","text":"fi\\ufffene"}'),
    "image-data-url": content('{"type":"image","mimeType":"image/png","data":"data:image/png;base64,iVBORw0KGgo="}'),
    "image-in-lines": content('{"type":"image","mimeType":"image/png","data":"iVBO\\nRw0KGgo="}'),
    "image-empty": content('{"type":"image","mimeType":"image/png","data":""}'),
    "resource-both": content('{"type":"resource","resource":{"uri":"a:b","text":"fine","blob":"@"}}'),
    "resource-null": content('{"type":"resource","resource":null}'),
    "structured-number": result('{"content":[],"structuredContent":7}'),
    "structured-false": result('{"content":[],"structuredContent":false}'),
    "python-literals": answer('"result":{"content":[],"x":None,"y":True}'),
    "undefined": answer('"result":{"content":[],"x":undefined}'),
    "number-hex": answer('"result":{"content":[],"x":0x1F}'),
    "number-octal": answer('"result":{"content":[],"x":007}'),
    "number-plus": answer('"result":{"content":[],"x":+1}'),
    "number-long-fraction": result('{"content":[],"structuredContent":{"n":0.' + "1" * 5_000 + "}}"),
    "number-exponent-long": result('{"content":[],"structuredContent":{"n":1e' + "9" * 50 + "}}"),
    "javascript-prefix": b")]}',OK\n",
    "callback": b"callback(OK);\n",
    "carriage-returns": b"10%\r50%\r100%\rOK\n",
    "carriage-return-only": b"OK\r",
    "nul-ends": b"OK\0",
    "length-in-binary": b"\0\0\0\x4bOK\n",
    "long-words-before": b"x" * 300_000 + b"OK\n",
    "bom-inside": b'{"jsonrpc":"2.0",\xef\xbb\xbf"id":ID,"result":{}}\n',
    "notification-id-null": b'{"jsonrpc":"2.0","id":null,"method":"notifications/message","params":{}}\nOK\n',
    "notification-with-result": b'{"jsonrpc":"2.0","method":"notifications/message","result":{}}\nOK\n',
    "notification-params-text": b'{"jsonrpc":"2.0","method":"notifications/message","params":"x"}\nOK\n',
    "cancels-everything": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}\n'
    b'{"jsonrpc":"2.0","method":"notifications/cancelled"}\nOK\n',
    "requests-with-our-id": b'{"jsonrpc":"2.0","id":ID,"method":"made/up"}\n' * 50 + b"OK\n",
    "request-tools-call": b'{"jsonrpc":"2.0","id":"q","method":"tools/call","params":{"name":"echo"}}\nOK\n',
    "request-elicit-odd": b'{"jsonrpc":"2.0","id":"q","method":"elicitation/create",'
    b'"params":{"requestedSchema":7}}\nOK\n',
    "progress-token-null": progress("null", "1") + progress("ID.5", "1") + progress("[]", "1") + b"OK\n",
    "progress-infinite": progress("ID", "1e999") + progress("ID", "-1e999") + b"OK\n",
    "progress-total-odd": b'{"jsonrpc":"2.0","method":"notifications/progress",'
    b'"params":{"progressToken":ID,"progress":5,"total":"all","message":[1]}}\nOK\n',
    "progress-long": b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":ID,"progress":5,'
    b'"message":"' + b"x" * 100_000 + b'"}}\nOK\n',
    "progress-after": b"OK\n" + progress("ID", "1") * 3,
    "progress-many": b"".join(progress("ID", str(number)) for number in range(2_000)) + b"OK\n",
    "updates-many": b'{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}\n' * 2_000
    + b"OK\n",
    "task-news-of-nobody": b'{"jsonrpc":"2.0","method":"notifications/tasks/status",'
    b'"params":{"taskId":[1],"status":7}}\nOK\n',
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
    "large-image": lambda: content(
        f'{{"type":"image","mimeType":"image/png","data":"iVBORw0KGgoA{"QUJD" * 1_000_000}"}}'
    ),
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
    import subprocess

    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.DEVNULL)
    os._exit(3)


def leave_children(_: Any) -> None:
    import subprocess

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


def pause_in_line(request_id: Any) -> None:
    data = filled(b"OK\n", request_id)
    write(data[:40])
    time.sleep(0.8)
    write(data[40:])


def go_on_as_a_child(request_id: Any) -> None:
    """The process that was started ends; its child has the pipes and answers."""
    if os.fork():
        os._exit(0)
    time.sleep(0.1)
    write(filled(b"OK\n", request_id))
    os._exit(0)


def answer_before_it_is_asked(request_id: Any) -> None:
    write(filled(with_id(str(request_id + 1)), request_id))


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
    "pause-in-line": pause_in_line,
    "utf-16": lambda i: write(filled(b"OK\n", i).decode().encode("utf-16")),
    "utf-16-big": lambda i: write(("\ufeff" + filled(b"OK\n", i).decode()).encode("utf-16-be")),
    "utf-16-after-a-line": lambda i: write(("hello\n" + filled(b"OK\n", i).decode()).encode("utf-16-le")),
    "go-on-as-a-child": go_on_as_a_child,
    "answer-before-it-is-asked": answer_before_it_is_asked,
    "words-to-stderr-without-end": lambda _: os.write(2, b"x" * 60_000),
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
ANSWERED = {"drip", "in-pieces", "pause-in-line", "utf-16", "utf-16-big", "utf-16-after-a-line"}


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
    "others-unanswered": result(
        '{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{},"resources":{}},'
        '"serverInfo":{"name":"s","version":"1"}}'
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
    "modern": result(
        '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private",'
        '"resultType":"complete"}'
    ),
    "discover-list": result("[]"),
    "discover-no-versions": result('{"supportedVersions":[],"capabilities":{},"resultType":"complete"}'),
    "discover-future": result(
        '{"supportedVersions":["2099-01-01"],"capabilities":{"tools":{}},"resultType":"complete"}'
    ),
    "discover-number": b'{"jsonrpc":"2.0","id":ID,"result":7}\n',
    "discover-null-id": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"what?"}}\n',
    "discover-parse-error": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}\n',
    "discover-twice": error('{"code":-32601,"message":"no"}') * 2,
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
    "list-of-a-call": content('{"type":"text","text":"x"}'),
    "cursor-same": tools("", ',"nextCursor":"again"'),
    "tools-many-null": tools(",".join(["null"] * 3_000)),
    "tools-twice": tools(",".join(json.dumps(tool) for tool in TOOLS)),
    "tool-unknown-fields": tools('{"name":"x","inputSchema":{"type":"object"},"made":{"up":[1]}}'),
    "tool-schema-not-object": tools('{"name":"x","inputSchema":{"type":"string"}}'),
    "tool-schema-ref-loop": tools('{"name":"x","inputSchema":{"type":"object","$ref":"#"}}'),
    "tool-meta-odd": tools('{"name":"x","inputSchema":{"type":"object"},"_meta":7}'),
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
    elif OPTIONS.init == "others-unanswered":
        pass
    elif method == "ping":
        write(filled(result("{}"), request_id))
    else:
        write(filled(error('{"code":-32601,"message":"Method not found"}'), request_id))


def main() -> None:
    while line := sys.stdin.buffer.readline():
        handle(json.loads(line))


if __name__ == "__main__":
    main()
