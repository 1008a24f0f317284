"""Tokens: accepted only from our issuer, for us, signed by a key of the set with an allowed algorithm."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.errors import InvalidConfigError
from sharegroup.security.authentication.sasl_exchange import LoginRejectedError
from sharegroup.security.authentication.token_check import TokenCheck
from sharegroup.security.authentication.token_keys import TokenKeys, keys_path, parse_keys, read_keys
from tests.unit.gateway.logins import AUDIENCE, ISSUER, Issuer


class Known:
    """The current keys."""

    def __init__(self, keys: TokenKeys) -> None:
        self.value = keys

    def check(self) -> bool:
        return False

    look_again = check


def check_of(issuer: Issuer, **settings: Any) -> TokenCheck:
    keys = Known(parse_keys(issuer.jwks(), "test"))
    return TokenCheck(keys, ISSUER, [AUDIENCE, "other-audience"], **settings)


def refusal(check: TokenCheck, token: str) -> str:
    with pytest.raises(LoginRejectedError) as refused:
        check(token)
    assert str(refused.value) == "the token was rejected"
    assert token[:20] not in refused.value.reason or len(token) < 20
    return refused.value.reason


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer("first", "second")


@pytest.fixture(scope="module")
def check(issuer: Issuer) -> TokenCheck:
    return check_of(issuer)


def test_valid_token_is_accepted(issuer: Issuer, check: TokenCheck) -> None:
    before_s = int(time.time())
    user, valid_until_ms = check(issuer.token())
    assert user == "alice"
    assert 630 <= valid_until_ms / 1_000 - before_s <= 690  # its expiry and the skew
    assert check(issuer.token("second")).user == "alice"


@pytest.mark.parametrize("audience", ["other-audience", ["somebody", AUDIENCE]])
def test_one_of_the_audiences_is_enough(issuer: Issuer, check: TokenCheck, audience: object) -> None:
    assert check(issuer.token(aud=audience)).user == "alice"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": None}, "MissingRequiredClaimError"),
        ({"iss": None}, "MissingRequiredClaimError"),
        ({"aud": None}, "MissingRequiredClaimError"),
        ({"sub": None}, "MissingRequiredClaimError"),
        ({"aud": "somebody else"}, "InvalidAudienceError"),
        ({"aud": []}, "MissingRequiredClaimError"),
        ({"iss": ISSUER.rstrip("/")}, "InvalidIssuerError"),
        ({"sub": ""}, "the value of the token's claim sub is not a valid user name"),
        ({"sub": "al\nice"}, "the value of the token's claim sub is not a valid user name"),
        ({"sub": 7}, "InvalidSubjectError"),
        ({"exp": "soon"}, "DecodeError"),
        ({"exp": 1e300}, ""),
    ],
)
def test_claims_are_checked(issuer: Issuer, check: TokenCheck, claims: dict[str, Any], reason: str) -> None:
    token = issuer.token(**claims)
    if reason:
        assert reason in refusal(check, token)
    else:
        assert check(token).valid_until_ms > 2**63  # the session truncates what its field cannot hold


def test_clocks_may_differ_by_the_skew(issuer: Issuer) -> None:
    now_s = int(time.time())
    strict, lenient = check_of(issuer, skew_s=0), check_of(issuer, skew_s=300)
    over, early = issuer.token(exp=now_s - 100), issuer.token(nbf=now_s + 100)
    assert "ExpiredSignatureError" in refusal(strict, over)
    assert "ImmatureSignatureError" in refusal(strict, early)
    assert lenient(over).valid_until_ms == (now_s + 200) * 1_000
    assert lenient(early).user == "alice"


def test_name_may_be_in_another_claim(issuer: Issuer) -> None:
    check = check_of(issuer, claim="preferred_username")
    assert check(issuer.token(preferred_username="bob")).user == "bob"
    assert "MissingRequiredClaimError" in refusal(check, issuer.token())
    assert "is not a valid user name" in refusal(check, issuer.token(preferred_username=["bob"]))


def test_token_of_an_unknown_key_is_rejected(check: TokenCheck) -> None:
    assert "InvalidSignatureError" in refusal(check, Issuer("first").token())
    assert "an unknown key" in refusal(check, Issuer("third").token("third"))


def unsigned(issuer: Issuer) -> str:
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    return jwt.encode(claims, None, "none", headers={"kid": "first"})


def signed_by_the_public_key(issuer: Issuer) -> str:
    """Sign by HS256 with the PEM of the public key as the secret."""
    public = issuer.keys["first"].public_key()  # type: ignore[union-attr]
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    _, claims, _ = issuer.token().split(".")
    header = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"first"}').rstrip(b"=").decode()
    proof = hmac.digest(pem, f"{header}.{claims}".encode(), hashlib.sha256)
    return f"{header}.{claims}." + base64.urlsafe_b64encode(proof).rstrip(b"=").decode()


def with_its_own_key(issuer: Issuer) -> str:
    """Put the verifying key into the header (`jwk`)."""
    stranger = Issuer("first")
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    return jwt.encode(claims, stranger.keys["first"], "ES256", {"kid": "first", "jwk": stranger.public("first")})  # type: ignore[arg-type]


def of_another_key(issuer: Issuer) -> str:
    """Sign with one valid key and name another one."""
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    return jwt.encode(claims, issuer.keys["second"], "ES256", {"kid": "first"})  # type: ignore[arg-type]


def with_other_claims(issuer: Issuer) -> str:
    header, _, signature = issuer.token().split(".")
    _, claims, _ = issuer.token(sub="root").split(".")
    return f"{header}.{claims}.{signature}"


@pytest.mark.parametrize(
    "forge", [unsigned, signed_by_the_public_key, with_its_own_key, of_another_key, with_other_claims]
)
def test_forged_tokens_are_rejected(issuer: Issuer, check: TokenCheck, forge: Callable[[Issuer], str]) -> None:
    refusal(check, forge(issuer))


def test_only_allowed_algorithms_are_accepted(issuer: Issuer) -> None:
    assert "algorithm" in refusal(check_of(issuer, algorithms=["RS256", "PS256"]), issuer.token())


@pytest.mark.parametrize("algorithm", ["RS256", "PS384"])
def test_rsa_key_is_used_only_for_its_algorithm(algorithm: str) -> None:
    """A key without an algorithm is used for all of its type."""
    issuer = Issuer()
    issuer.add("rsa", Issuer.rsa_key())
    assert check_of(issuer)(issuer.token("rsa", algorithm)).user == "alice"
    bound = TokenCheck(Known(parse_keys(issuer.jwks(alg="RS512"), "test")), ISSUER, [AUDIENCE])
    assert "an unknown key" in refusal(bound, issuer.token("rsa", algorithm))


def test_key_type_must_match_the_algorithm(issuer: Issuer) -> None:
    """Check an ES256 token that names RS256, and a token of another curve."""
    header, claims, signature = issuer.token().split(".")
    other = base64.urlsafe_b64encode(b'{"alg":"RS256","kid":"first"}').rstrip(b"=").decode()
    refusal(check_of(issuer), f"{other}.{claims}.{signature}")
    wide = Issuer("first")
    wide.add("first", ec.generate_private_key(ec.SECP384R1()))
    header = base64.urlsafe_b64encode(b'{"alg":"ES256","kid":"first"}').rstrip(b"=").decode()
    refusal(check_of(wide), f"{header}.{claims}.{signature}")


def test_token_without_kid_uses_the_only_key(issuer: Issuer) -> None:
    def token(of: Issuer) -> str:
        claims = jwt.decode(of.token(), options={"verify_signature": False})
        return jwt.encode(claims, of.keys["first"], "ES256")  # type: ignore[arg-type]

    alone = Issuer("first")
    assert check_of(alone)(token(alone)).user == "alice"
    assert "an unknown key" in refusal(check_of(issuer), token(issuer))


def test_tokens_with_unknown_keys_are_found(issuer: Issuer, check: TokenCheck) -> None:
    assert check.has_unknown_key(Issuer("third").token("third"))
    assert not check.has_unknown_key(issuer.token())
    assert not check.has_unknown_key("not a token")


@given(st.text(alphabet=st.characters(codec="ascii"), max_size=60) | st.binary(max_size=60).map(lambda b: b.hex()))
def test_other_text_is_rejected(text: str) -> None:
    issuer = Issuer()
    check = check_of(issuer)
    for token in (text, f"{text}.{text}.{text}", f"e30.{text}.", f"{issuer.token()}{text}x"):
        refusal(check, token)


# -- key sets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a JSON Web Key Set"),
        ('{"keys": {}}', "not a JSON Web Key Set"),
        ('{"keys": []}', "no public key"),
        ('{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "a"}]}', "no public key"),
        ('{"keys": [{"kty": "EC", "kid": "a", "use": "enc"}]}', "no public key"),
        ('{"keys": [{"kty": "RSA", "kid": "a", "d": "secret"}]}', "no public key"),
        ('{"keys": [{"kty": "EC", "kid": 7}]}', "no public key"),
    ],
)
def test_invalid_key_sets_are_rejected(text: str, problem: str) -> None:
    with pytest.raises(InvalidConfigError, match=problem) as error:
        parse_keys(text, "keys.json")
    assert "secret" not in str(error.value)


def test_invalid_key_verifies_no_token(issuer: Issuer) -> None:
    broken = json.dumps({"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "first"}]})
    check = TokenCheck(Known(parse_keys(broken, "test")), ISSUER, [AUDIENCE])
    refusal(check, issuer.token())


@pytest.mark.parametrize(
    ("url", "path"),
    [("file:///etc/keys%20of.json", "/etc/keys of.json"), ("https://login.example.com/keys", None)],
)
def test_valid_key_urls(url: str, path: str | None) -> None:
    assert keys_path(url) == path


@pytest.mark.parametrize(
    "url", ["http://login.example.com/keys", "/etc/keys.json", "file://else/keys", "https://", "x"]
)
def test_invalid_key_urls(url: str) -> None:
    with pytest.raises(InvalidConfigError, match=r"jwks\.endpoint\.url"):
        keys_path(url)


def test_missing_key_file_is_rejected(tmp_path: object) -> None:
    with pytest.raises(InvalidConfigError, match="cannot be read"):
        read_keys(f"{tmp_path}/none.json")
