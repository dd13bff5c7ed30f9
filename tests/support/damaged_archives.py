"""Archives of arrays with a bit turned where a reader comes to it before the checksum."""

import io
import zipfile


def open_header(content: bytes) -> bytes:
    """The header of the largest array has a parenthesis more, as a turned bit of a space makes it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = max(parts, key=lambda one: len(parts[one]))
    parts[name] = parts[name].replace(b"}  ", b"} (", 1)
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return found.getvalue()


def encrypted(content: bytes) -> bytes:
    """The last entry of the archive's list says that its array is encrypted."""
    at = content.rindex(b"PK\x01\x02") + 8
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
