"""`faircall call` against a server of a few lines."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from faircall.server.cli import cli
from faircall.server.cli_call import parse_params, parse_value, result_text

ERRORS: dict[str, dict[str, Any]] = {
    "busy": {"code": -32005, "message": "Limit exceeded", "data": {"reason": "queue_full"}},
    "late": {"code": -32050, "message": "Deadline exceeded", "data": None},
    "fail": {"code": -32000, "message": "ValueError: no", "data": {"reason": "exception"}},
}


class Answers(socketserver.StreamRequestHandler):
    """Answers `mirror` with its params, `attempts` with the number of the attempt once that is 2,
    and before that, as any method named in `ERRORS`, with an error."""

    def handle(self) -> None:
        for line in self.rfile:
            message = json.loads(line)
            many = message if isinstance(message, list) else [message]
            answers = [self.answer(request) for request in many]
            sent = answers if isinstance(message, list) else answers[0]
            self.wfile.write(json.dumps(sent).encode() + b"\n")

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        answer = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] == "attempts":
            attempt = request["meta"].get("attempt", 0)
            return answer | ({"error": ERRORS["busy"]} if attempt < 2 else {"result": attempt})
        if request["method"] in ERRORS:
            return answer | {"error": ERRORS[request["method"]]}
        return answer | {"result": request.get("params")}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answers) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"tcp://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


Run = Callable[..., Result]


@pytest.fixture
def run(address: str) -> Run:
    def run_call(*argv: str) -> Result:
        result = CliRunner().invoke(cli, ["call", *argv], env={"FAIRCALL_TO": address})
        assert result.exception is None or isinstance(result.exception, SystemExit), argv
        return result

    return run_call


def test_the_result_is_printed(run: Run) -> None:
    result = run("mirror", "1", "-2", "x y", "--json")
    assert (result.exit_code, result.stdout) == (0, '[1,-2,"x y"]\n')
    assert run("mirror", "[1]").stdout == "[\n  [\n    1\n  ]\n]\n"


def test_named_parameters_are_named_even_timeout(run: Run) -> None:
    assert json.loads(run("mirror", "a=1", "b=x=y").stdout) == {"a": 1, "b": "x=y"}
    assert json.loads(run("mirror", "timeout=3", "--timeout", "9").stdout) == {"timeout": 3}
    assert json.loads(run("mirror", "idempotent=true").stdout) == {"idempotent": True}


@pytest.mark.parametrize(("method", "code"), [("fail", 1), ("late", 4), ("busy", 75)])
def test_the_exit_code_tells_errors_apart(run: Run, method: str, code: int) -> None:
    result = run(method)
    assert (result.exit_code, result.stdout) == (code, "")
    assert ERRORS[method]["message"] in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_busy_server_is_asked_again_where_that_is_asked_for(run: Run) -> None:
    assert run("attempts").exit_code == 75
    assert run("attempts", "--retry", "1").exit_code == 75
    assert run("attempts", "--retry", "2").stdout == "2\n"
    assert run("attempts", "--retry", "-1").exit_code == 2


def test_of_several_servers_the_first_that_can_be_reached_is_called(run: Run, address: str) -> None:
    assert run("mirror", "1", "--to", f"unix:/nonexistent.sock,{address}").exit_code == 0


def test_an_error_is_json_where_json_is_asked_for(run: Run) -> None:
    assert json.loads(run("fail", "--json").stderr) == {"error": ERRORS["fail"]}
    assert run("fail").stderr.startswith("faircall: ")


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["m", "--to", "unix:/nonexistent.sock"], 3, "cannot connect to unix:/nonexistent.sock"),
        (["m", "--to", "ftp://x"], 2, "bad address 'ftp://x'"),
        (["m", "--timeout", "0"], 2, "timeout must be more than 0 s"),
        (["m", "--timeout", "soon"], 2, "'soon' is not a valid float"),
        (["m", "1", "a=2"], 2, "either all positional or all NAME=VALUE"),
        (["m", "--jsn"], 2, "no such option: --jsn"),
        ([], 2, "Missing argument 'METHOD'"),
    ],
)
def test_mistakes_are_told_without_a_traceback(
    run: Run, argv: list[str], code: int, message: str
) -> None:
    result = run(*argv)
    assert result.exit_code == code
    assert message in result.stderr


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5", 1.5),
        ('"1"', "1"),
        ("null", None),
        ('{"a": []}', {"a": []}),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("{", "{"),
        ("", ""),
    ],
)
def test_a_parameter_is_json_or_text(text: str, value: object) -> None:
    assert parse_value(text) == value


def test_only_an_identifier_names_a_parameter() -> None:
    assert parse_params(("a+b=c", "=x")) == (["a+b=c", "=x"], {})
    with pytest.raises(click.UsageError):
        parse_params(("--x",))


def test_padding_of_base64_names_no_parameter() -> None:
    assert parse_params(("aGVsbG8=", "aGVsbA==", "1")) == (["aGVsbG8=", "aGVsbA==", 1], {})
    assert parse_params(('text=""', "other==x")) == ([], {"text": "", "other": "=x"})
    with pytest.raises(click.UsageError, match="an empty one is"):
        parse_params(("a=1", "b="))


def test_a_result_that_no_terminal_can_show_is_printed_escaped() -> None:
    assert result_text("a\ud800", as_json=False) == "a\\ud800"
    assert result_text("é", as_json=True) == '"é"'
