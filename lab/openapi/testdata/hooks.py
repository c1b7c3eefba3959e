"""Rules of the API that an OpenAPI document cannot express.

negative_data_rejection and positive_data_acceptance check only the status. In a batch each item
has an outcome of its own, which these hooks check.
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
    """The document requires a hold ID or a place ID in each item, with dependentSchemas, which
    schemathesis does not always follow."""
    items = case.body.get("holds") or [] if isinstance(case.body, dict) else []
    return any(not item.get("holdId") and not item.get("placeId") for item in items if isinstance(item, dict))


@schemathesis.hook
def before_call(context, case, kwargs):
    """With a short time-out, which schemathesis mostly generates, the caller would get no answer."""
    told = str((case.headers or {}).get("Holdfast-Timeout-Ms", ""))
    if told.isdecimal() and int(told) < 60_000:
        case.headers["Holdfast-Timeout-Ms"] = "60000"


@schemathesis.hook
def filter_failure(context, failure, case, response):
    problem = response.headers.get("content-type", [""])[0] == "application/problem+json"
    if isinstance(failure, UnsupportedMethodResponse) and problem and response.status_code == 415:
        return False  # a POST without JSON is refused before its path is checked
    if isinstance(failure, AcceptedNegativeData) and problem and response.status_code == 413:
        return False  # too many items, or bytes: it was refused
    if isinstance(failure, AcceptedNegativeData) and case.operation.path in BATCHES and response.status_code == 200:
        return "invalid" not in outcomes(response)
    if isinstance(failure, RejectedPositiveData):
        # This depends on the holds in the store.
        another = problem and json.loads(response.content)["detail"] == "the hold has another lockId"
        return not another and not too_long(case)
    return True


@schemathesis.check
def items_are_valid(ctx, response, case):
    """In a valid batch, no item is invalid."""
    if case.operation.path in BATCHES and response.status_code == 200 and case.meta and case.meta.generation.mode.is_positive:
        assert "invalid" not in outcomes(response) or too_long(case) or names_nothing(case), response.text


@schemathesis.check
def refusals_say_their_status(ctx, response, case):
    """Each error is a problem of the API with the status of the response."""
    if response.status_code != 200:
        problem = json.loads(response.content)
        assert problem["type"].startswith("urn:holdfast:"), problem
        assert problem["status"] == response.status_code, problem
