"""The version, once: the package metadata, the surfaces and the bridge all read it here."""

VERSION = "0.1.0"
