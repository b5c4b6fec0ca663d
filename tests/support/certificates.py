"""Keys with certificates that nobody else has signed, made by what comes with Java."""

import subprocess
from pathlib import Path
from typing import Final

from onceward.jars import java_command

STORE: Final = "keystore-password"
SUPPORT: Final = Path(__file__).parent


def certificates(folder: Path, name: str = "broker", algorithm: str = "EC") -> tuple[Path, Path]:
    """A keystore with a key, and its certificate as PEM."""
    store, certificate, keytool = folder / f"{name}.p12", folder / f"{name}.pem", java_command().parent / "keytool"
    common = ["-keystore", str(store), "-storetype", "PKCS12", "-storepass", STORE, "-alias", name]
    made = ["-genkeypair", "-keyalg", algorithm, "-dname", f"CN={name}", "-validity", "2", "-ext", "SAN=ip:127.0.0.1"]
    subprocess.run([keytool, *made, *common], check=True, capture_output=True)
    subprocess.run([keytool, "-exportcert", "-rfc", "-file", certificate, *common], check=True, capture_output=True)
    return store, certificate


def keys(store: Path, password: str) -> tuple[Path, Path]:
    """The key of a store as PEM, as it is and sealed with a password."""
    key, sealed = store.with_suffix(".key"), store.with_suffix(".sealed.key")
    told = [str(store), STORE, password, str(key), str(sealed)]
    subprocess.run([java_command(), SUPPORT / "PemOf.java", *told], check=True, capture_output=True)
    return key, sealed
