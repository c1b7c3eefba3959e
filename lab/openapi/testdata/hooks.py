"""What schemathesis is told about the API that a document cannot say.

negative_data_rejection and positive_data_acceptance look at the status alone. In a batch each
item has an outcome of its own, which is looked at here.
"""

import json
import os

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.openapi.checks import RejectedPositiveData, UnsupportedMethodResponse

BATCHES = ("/v1/renew", "/v1/release")
# The server writes the name of its caller, and a byte, before lock IDs and owners.
PREFIX = int(os.environ.get("PREFIX", "0"))


def outcomes(response):
    return [result["outcome"] for result in json.loads(response.content)["results"]]


def texts(value):
    """All texts of a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


def too_long(case):
    """A name has 1024 bytes at most, but JSON Schema counts characters."""
    return any(len(text.encode("utf-8", "surrogatepass")) + PREFIX > 1024 for text in texts([case.body, dict(case.query or {})]))


def names_nothing(case):
    """The document wants a hold ID or a place ID of each item, by dependentSchemas, which
    schemathesis does not follow everywhere."""
    items = case.body.get("holds") or [] if isinstance(case.body, dict) else []
    return any(not item.get("holdId") and not item.get("placeId") for item in items if isinstance(item, dict))


@schemathesis.hook
def before_call(context, case, kwargs):
    """A caller that does not wait would get no answer, and schemathesis mostly makes such."""
    told = str((case.headers or {}).get("Holdfast-Timeout-Ms", ""))
    if told.isdecimal() and int(told) < 60_000:
        case.headers["Holdfast-Timeout-Ms"] = "60000"


@schemathesis.hook
def filter_failure(context, failure, case, response):
    problem = response.headers.get("content-type", [""])[0] == "application/problem+json"
    if isinstance(failure, UnsupportedMethodResponse) and problem and response.status_code == 415:
        return False  # a POST that is no JSON is refused before anybody looks where it goes
    if isinstance(failure, AcceptedNegativeData) and problem and response.status_code == 413:
        return False  # too many items, or bytes: it was refused
    if isinstance(failure, AcceptedNegativeData) and case.operation.path in BATCHES and response.status_code == 200:
        return "invalid" not in outcomes(response)
    if isinstance(failure, RejectedPositiveData):
        # That depends on what is held.
        another = problem and json.loads(response.content)["detail"] == "the hold has another lockId"
        return not another and not too_long(case)
    return True


@schemathesis.check
def items_are_valid(ctx, response, case):
    """Of a batch that is as described, no item is invalid."""
    if case.operation.path in BATCHES and response.status_code == 200 and case.meta and case.meta.generation.mode.is_positive:
        assert "invalid" not in outcomes(response) or too_long(case) or names_nothing(case), response.text


@schemathesis.check
def refusals_say_their_status(ctx, response, case):
    """What is not a success is a problem of the API with the status that it has."""
    if response.status_code != 200:
        problem = json.loads(response.content)
        assert problem["type"].startswith("urn:holdfast:"), problem
        assert problem["status"] == response.status_code, problem
