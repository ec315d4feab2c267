"""Certificates of the secured lab."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store

from tests.three_brokers.certificates import new_authority


def test_a_certificate_is_signed_by_its_authority_alone() -> None:
    """It is valid for loopback, holds its key, and is of no other authority."""
    ours, theirs = new_authority("Ours"), new_authority("Theirs")
    pem = ours.issue("broker")
    leaf = x509.load_pem_x509_certificates(pem.encode())[0]
    assert "BEGIN PRIVATE KEY" in pem
    assert leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "broker"
    leaf.verify_directly_issued_by(ours.certificate)
    name = x509.DNSName("localhost")
    verifier = PolicyBuilder().store(Store([ours.certificate])).build_server_verifier(name)
    assert verifier.verify(leaf, [])
    with pytest.raises(ValueError, match=r"[Ii]ssuer"):
        leaf.verify_directly_issued_by(theirs.certificate)


def test_an_expired_certificate_has_expired() -> None:
    """It was valid once."""
    leaf = x509.load_pem_x509_certificates(new_authority("Ours").issue("broker", expired=True).encode())[0]
    assert leaf.not_valid_before_utc < leaf.not_valid_after_utc < datetime.now(UTC)
