"""Each issuer's key is known by its shape wherever it appears, and no everyday text has such a shape."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
import time
from pathlib import Path
from urllib.parse import quote
from uuid import UUID

import pytest

from mcpagent.utilities.text.secret_shapes import SHAPES
from mcpagent.utilities.text.secrets import settled_length, without_secrets, without_shapes
from tests.speed import within

ROOT = Path(__file__).resolve().parents[3]
HEX, LETTERS, UPPER = "3f9a0c7e5b1d8264", "q7Zk2mX9Lw4Tn8Rb6Vc1", "7K2MQ9XZ4LTN8RB6VC1P"


def cycle(alphabet: str, length: int) -> str:
    return (alphabet * (length // len(alphabet) + 1))[:length]


def word(length: int) -> str:
    return cycle(LETTERS, length)


def hexed(length: int) -> str:
    return cycle(HEX, length)


UUID_TEXT = "6f1c2d3e-4a5b-4c6d-8e7f-901a2b3c4d5e"
EXAMPLES = {
    "sk-": [f"sk-{word(48)}", f"sk-{hexed(32)}", f"sk-proj-{word(40)}_{word(60)}-{word(50)}", f"sk-svcacct-{word(90)}"],
    "sk-ant-": [f"sk-ant-api03-{word(93)}AA", f"sk-ant-admin01-{word(93)}AA", f"sk-ant-oat01-{word(40)}-{word(52)}AA"],
    "sk-or-": [f"sk-or-v1-{hexed(64)}"],
    "sk-lf-": [f"sk-lf-{UUID_TEXT}"],
    "lsv2_pt_": [f"lsv2_pt_{hexed(32)}_{hexed(10)}", f"lsv2_sk_{hexed(32)}_{hexed(10)}"],
    "gsk_": [f"gsk_{word(52)}"],
    "xai-": [f"xai-{word(80)}"],
    "r8_": [f"r8_{word(37)}"],
    "pplx-": [f"pplx-{word(48)}"],
    "csk-": [f"csk-{word(48).lower()}"],
    "nvapi-": [f"nvapi-{word(30)}_{word(33)}"],
    "tvly-": [f"tvly-{word(32)}", f"tvly-dev-{word(32)}"],
    "fc-": [f"fc-{hexed(32)}"],
    "hf_": [f"hf_{cycle('qZkmXLwTnRbVc', 34)}", f"api_org_{cycle('qZkmXLwTnRbVc', 34)}"],
    "ghp_": [f"gh{kind}_{word(36)}" for kind in "pousr"],
    "github_pat_": [f"github_pat_11{word(20)}_{word(59)}"],
    "glpat-": [
        *(f"gl{kind}-{word(20)}" for kind in ("pat", "dt", "rt", "rtr", "cbt", "ft", "imt", "agent", "soat")),
        f"glpat-{word(12)}_{word(15)}.01.0q1{hexed(6)}",
        f"glptt-{hexed(40)}",
        f"gloas-{hexed(64)}",
    ],
    "xoxa-": [
        f"xoxb-263594206564-2343594206574-{word(24)}",
        f"xoxp-2-{'1' * 11}-{word(30)}",
        f"xoxe.xoxp-1-{word(160)}",
        f"xoxe-1-{word(146)}",
        f"xoxc-2541715624-2536568458595-{hexed(64)}",
    ],
    "xoxd-": [f"xoxd-{word(60)}%2B{word(60)}"],
    "xapp-": [f"xapp-1-A05V64V7F2B-5062360157732-{hexed(64)}"],
    "AKIA": [f"AKIA{cycle(UPPER, 16)}", f"ASIA{cycle(UPPER, 16)}"],
    "ABSKQmVkcm9ja0FQSUtleS": [f"ABSKQmVkcm9ja0FQSUtleS{word(90)}="],
    "AIza": [f"AIzaSy{word(33)}"],
    "ya29.": [f"ya29.a0{word(60)}-{word(40)}"],
    "GOCSPX-": [f"GOCSPX-{word(28)}"],
    "1//0": [f"1//0g{word(60)}-{word(30)}"],
    "npm_": [f"npm_{word(36)}"],
    "pypi-AgE": [f"pypi-AgEIcHlwaS5vcmc{word(60)}-{word(60)}"],
    "rubygems_": [f"rubygems_{hexed(48)}"],
    "dckr_pat_": [f"dckr_pat_{word(27)}", f"dckr_oat_{word(32)}"],
    "sk_live_": [f"sk_live_{word(24)}", f"rk_live_51{word(97)}", f"sk_test_{word(24)}"],
    "whsec_": [f"whsec_{word(32)}"],
    "SG.": [f"SG.{word(22)}.{word(43)}"],
    "SK": [f"SK{hexed(32)}"],
    "xkeysib-": [f"xkeysib-{hexed(64)}-{word(16)}"],
    "dop_v1_": [f"dop_v1_{hexed(64)}", f"doo_v1_{hexed(64)}", f"dor_v1_{hexed(64)}"],
    "shpat_": [f"shp{kind}_{hexed(32)}" for kind in ("at", "ca", "pa", "ss")],
    "dapi": [f"dapi{hexed(32)}", f"dapi{hexed(32)}-2"],
    "lin_api_": [f"lin_api_{word(40)}", f"lin_oauth_{hexed(64)}"],
    "ntn_": [f"ntn_19756390146{word(35)}"],
    "secret_": [f"secret_{word(43)}"],
    "sbp_": [f"sbp_{hexed(40)}"],
    "sb_secret_": [f"sb_secret_{word(22)}_{word(8)}"],
    "ATATT3": [f"ATATT3xFfGF0{word(170)}={hexed(8).upper()}"],
    "figd_": [f"figd_{word(20)}_{word(19)}-{word(2)}"],
    "glsa_": [f"glsa_{word(32)}_{hexed(8)}"],
    "sntryu_": [f"sntryu_{hexed(64)}"],
    "sntrys_eyJ": [f"sntrys_eyJ{word(60)}_{word(43)}"],
    "NRAK-": [f"NRAK-{cycle(UPPER, 27)}"],
    "PMAK-": [f"PMAK-{hexed(24)}-{hexed(34)}"],
    "hvs.": [f"hvs.CAES{word(90)}", f"hvb.AAAAAQ{word(130)}"],
    "dp.pt.": [f"dp.pt.{word(43)}", f"dp.st.dev.{word(43)}"],
    "pscale_tkn_": [f"pscale_tkn_{word(43)}", f"pscale_pw_{word(43)}"],
    "AGE-SECRET-KEY-1": [f"AGE-SECRET-KEY-1{cycle(UPPER, 58)}"],
    "eyJ": ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.c2lnbmF0dXJl"],
    "-----BEGIN": ["-----BEGIN EC PRIVATE KEY-----\nMIIB Og==\n-----END EC PRIVATE KEY-----"],
    ":AA": [f"110201543:AA{word(33)}", f"7110201543:AA{word(20)}-_{word(11)}"],
}
BASE64 = ("xoxd-", "whsec_", "ABSK", "sntrys_")
"""Keys that may contain a slash."""

KEPT = {
    "hooks.slack.com/services/": f"https://hooks.slack.com/services/#T024BE7LD/B024BE7LH/{word(24)}",
    "discord.com/api/webhooks/": f"https://discord.com/api/webhooks/#1234567890123456789/{word(68)}",
    "webhook.office.com/webhookb2/": (
        f"https://acme.webhook.office.com/webhookb2/#{UUID_TEXT}@{UUID_TEXT}/IncomingWebhook/{hexed(32)}/{UUID_TEXT}"
    ),
    "AccountKey=": f"AccountName=acme;AccountKey=#{word(86)}==",
    "SharedAccessKey=": f"Endpoint=sb://a.b/;SharedAccessKey=#{word(43)}=",
    "?sig=": f"https://a.blob.core.windows.net/c?sv=2024-11-04&sig=#{word(43)}%3D",
    "://": "postgres://#user:geheim42@db.example/x",
}
"""An example of each shape whose name or address stays; `#` is where the secret begins."""


def test_every_shape_has_an_example_and_a_source() -> None:
    assert {shape.marks.split()[0] for shape in SHAPES} <= EXAMPLES.keys() | KEPT.keys()
    assert all(shape.source.startswith("https://") for shape in SHAPES)


def test_each_key_is_replaced_as_a_whole_wherever_it_appears() -> None:
    for keys in EXAMPLES.values():
        for key in keys:
            for before, after in (
                ("token ", ", said the server"),
                ("", ""),
                ("KEY=", "\n"),
                ('{"key": "', '"}'),
                ("x\\n", "\\n"),  # a line of a text in JSON
                ("https://h/mcp?token=", "&x=1"),
                ("https://h/bot" if ":AA" in key else "https://h/", " b" if key.startswith(BASE64) else "/mcp"),
                ("a%3D", " b" if key.startswith("xoxd") else "%26b"),
                ("_", "") if key[0] != "1" else ("(", ")"),
            ):
                assert without_secrets(f"{before}{key}{after}") == f"{before}[redacted]{after}", (before, key)


def test_an_address_or_a_name_before_a_secret_stays() -> None:
    for example in KEPT.values():
        shown, _, _ = example.partition("#")
        clean = without_secrets(example.replace("#", ""))
        assert clean.startswith(f"{shown}[redacted]"), example
        assert "geheim" not in clean
        assert LETTERS[:8] not in clean


@pytest.mark.slow
def test_a_key_in_a_stream_waits_for_its_end_at_each_cut() -> None:
    for keys in (*EXAMPLES.values(), *([text.replace("#", "")] for text in KEPT.values())):
        for key in keys:
            text = f"so {key} is it"
            whole = without_secrets(text)
            for cut in range(4, 4 + len(key)):
                settled = settled_length(text[:cut])
                shown = without_secrets(text[:settled]) + without_secrets(text[settled:])
                assert shown == whole, (text[:cut], settled)


def test_joined_words_behind_a_mark_stay() -> None:
    tails = (
        "rotation-policy-for-our-projects-of-2026",
        "Rotation-Policy-For-Our-Projects",
        "rotation_policy_for_our_projects_v_2_of_2026",
        "rotation.policy.for.our.projects",
        "live",
        "2026-11-28",
        "",
    )
    for shape in SHAPES:
        for mark in shape.marks.split():
            for tail in tails:
                for text in (f"see {mark}{tail} there", f"{mark}{tail}", f"x-{mark}{tail}"):
                    assert without_shapes(text) == text


def test_hashes_identifiers_and_encoded_bytes_stay() -> None:
    chance = random.Random(30)
    data = chance.randbytes(120_000)
    lines = [
        *(hashlib.sha256(data[at : at + 8]).hexdigest() for at in range(0, 4_000, 8)),
        *(hashlib.md5(data[at : at + 8]).hexdigest() for at in range(0, 4_000, 8)),
        *(str(UUID(bytes=data[at : at + 16])) for at in range(0, 8_000, 16)),
        base64.b64encode(data).decode(),
        base64.urlsafe_b64encode(data).decode(),
        base64.b32encode(data).decode(),
        data.hex(),
        data.hex().upper(),
        "".join(chance.choices(string.ascii_letters + string.digits, k=100_000)),
        "".join(chance.choices(string.digits + ":.-/ ", k=100_000)),
        json.dumps([chance.random() for _ in range(1_000)]),
        quote(data[:20_000]),
    ]
    for line in lines:
        assert without_shapes(line) == line


@pytest.mark.slow
def test_the_texts_of_this_project_stay() -> None:
    for path in (*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), *(ROOT / "mcpagent").rglob("*.py")):
        lines = [line for line in path.read_text("utf-8").splitlines() if "://" not in line]
        text = "\n".join(lines)
        if without_shapes(text) != text:
            pytest.fail(f"{path}: {[line for line in lines if without_shapes(line) != line] or 'over several lines'}")


def test_keys_in_long_texts_are_replaced_in_each_piece() -> None:
    key = f"sk-ant-{word(40)}"
    rows = [f'"row {number}": "{key if number % 9_000 == 7 else number}"' for number in range(40_000)]
    lines = [f"row {number} {key if number % 9_000 == 7 else number}" for number in range(40_000)]
    for text in (",".join(rows), "\n".join(lines)):
        clean = without_shapes(text)
        assert clean == text.replace(key, "[redacted]")
        assert clean.count("[redacted]") == 5


HOSTILE = {
    "words behind a mark": "sk-ant-" + "ab-" * 60,
    "a slug": "xoxb-" + "one-two-" * 40,
    "beginnings of private keys": "-----BEGIN PRIVATE KEY-----" * 10_000,
    "beginnings of tokens": "eyJ-" * 10_000,
    "marks without a key": "glpat-" * 50_000,
    "addresses": "://a:" * 50_000,
    "one long line": "QUJD" * 500_000,
}


@pytest.mark.slow
def test_no_text_takes_more_than_linear_time() -> None:
    slow = {}
    for name, text in HOSTILE.items():
        began = time.process_time()
        without_shapes(text)
        if not within(time.process_time() - began, 1.0):
            slow[name] = time.process_time() - began
    assert not slow
