"""`run.py FOLDER SERVER`: the tests of azure-servicebus of its repository beside the program `consign`.

FOLDER is what `scripts/foreign` prints, and SERVER the program. The tests are those of the source distribution of the pinned
version. Each part runs beside a server of its own, most of the time asleep. `left-out.txt` has the tests that are left out, and why.
"""

import concurrent.futures
import datetime
import fnmatch
import os
import pathlib
import re
import socket
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
VERSION = re.search(r"^azure-servicebus==(.+)$", (HERE / "../../requirements.txt").read_text(), re.MULTILINE)[1]
# A file or a folder of tests, and how many processes share it.
PARTS = [
    ("test_queues.py", 4),
    ("async_tests/test_queues_async.py", 4),
    ("test_sessions.py", 3),
    ("async_tests/test_sessions_async.py", 3),
    ("test_topic.py", 1),
    ("test_sb_client.py async_tests/test_sb_client_async.py", 1),
    ("mgmt_tests", 1),
    ("test_message.py test_subscriptions.py test_list_sessions.py async_tests/test_subscriptions_async.py "
     "async_tests/test_list_sessions_async.py async_tests/test_topic_async.py", 1),
    ("unittests test_batch_sizing.py test_connection_string_parser.py test_dictmixin_amqp.py test_mgmt_client_kwargs.py "
     "test_tracing.py", 1),
]
# What tests say that skip themselves, by their authors. Any other test that is skipped lacks something here.
BY_AUTHORS = ("start_idx and max_count are currently removed", "uamqp", "hard to test")


def install(folder):
    """Returns the folder of the tests, which is installed once."""
    tests = folder / f"azure_servicebus-{VERSION}" / "tests"
    if not (folder / "complete").exists():
        folder.mkdir(exist_ok=True)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        target = ["--target", folder / "packages"]
        subprocess.run([*pip, "install", "--no-deps", *target, "--requirement", HERE / "requirements.txt"], check=True)
        source = ["--no-deps", "--no-binary", "azure-servicebus", "--dest", folder]
        subprocess.run([*pip, "download", *source, f"azure-servicebus=={VERSION}"], check=True)
        with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
            archive.extractall(folder, filter="data")
        # It is the one of this folder.
        (tests / "servicebus_preparer.py").unlink()
        (folder / "complete").touch()
    return tests


def certificate(folder, host):
    """Writes a certificate that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    signed = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), False).sign(key, hashes.SHA256())
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "certificate.pem").write_bytes(signed.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))


def keys(resources, queue):
    entries = [(resources.KEY_NAME, "manage send listen", ""), ("listen-manage-send", "manage send listen", "")]
    entries += [("listen", "listen", ""), ("send", "send", ""), (queue, "manage send listen", f'entity = "{queue}"\n')]
    text = '[[keys]]\nname = "{}"\nkey = "{}"\nrights = {}\n{}'
    return "".join(text.format(name, resources.KEY, rights.split(), entity) for name, rights, entity in entries)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run(part, tests, server, work):
    """Runs a part beside a server. Returns the outcomes of its tests."""
    paths, number, count = part
    amqps, https = free_port(), free_port()
    results = work / f"{abs(hash(part))}.xml"
    tls = ["--tls-cert", work / "certificate.pem", "--tls-key", work / "key.pem"]
    ports = ["--amqp-port", "0", "--amqps-port", str(amqps), "--http-port", str(https)]
    command = [server, "serve", "--config", work / "empty.toml", "--keys", work / "keys.toml", "--hold-locks", *tls, *ports]
    folders = ["", "mgmt_tests", "mgmt_tests/async", "async_tests"]
    paths_of_modules = [HERE, tests.parent.parent / "packages", *(tests / folder for folder in folders)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, paths_of_modules)),
        "SSL_CERT_FILE": str(work / "certificate.pem"),
        "REQUESTS_CA_BUNDLE": str(work / "certificate.pem"),
        "SERVICEBUS_ENDPOINT_SUFFIX": ".servicebus.test",
        "CONSIGN_AMQPS_PORT": str(amqps),
        "CONSIGN_HTTPS_PORT": str(https),
        "CONSIGN_PART": f"{number}/{count}",
    }
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            if not any(line.startswith(b"Ready") for line in process.stdout):
                return [("failed", f"{paths} {number}/{count}", ["the server does not start"])]
            options = "-p consign_upstream -p no:cacheprovider -o asyncio_mode=auto --timeout 700 -q".split()
            pytest = [sys.executable, "-m", "pytest", *options, f"--junit-xml={results}", *paths.split()]
            status = subprocess.run(pytest, cwd=tests, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
        finally:
            process.terminate()
    if not results.exists():
        return [("failed", f"{paths} {number}/{count}", ["pytest did not run to its end"])]
    outcomes = [outcome(case) for case in ElementTree.parse(results).getroot().iter("testcase")]
    kinds = {kind for kind, *_ in outcomes}
    # pytest ends with 1 if a test failed.
    if status not in (0, 1) or (status == 1 and "failed" not in kinds) or "passed" not in kinds:
        outcomes.append(("failed", f"{paths} {number}/{count}", [f"pytest ended with {status} after {len(outcomes)} test(s)"]))
    return outcomes


def left_out(case):
    """The patterns of left-out.txt that leave a test out, or that its authors do."""
    return {each.get("value") for each in case.iter("property") if each.get("name") == "left out"}


def outcome(case):
    name = f'{case.get("classname")}::{case.get("name")}'
    for kind, tags in (("failed", ("failure", "error")), ("left out", ("skipped",))):
        found = next((child for child in case if child.tag in tags), None)
        if found is not None:
            text = (found.get("message") or "").splitlines()[:1]
            if kind == "left out" and not left_out(case) and not any(part in "".join(text) for part in BY_AUTHORS):
                return "failed", name, ["skipped", *text]
            return kind, name, text
    return "passed", name, []


def unused(outcomes):
    """The patterns of left-out.txt that leave out nothing."""
    lines = (HERE / "left-out.txt").read_text().splitlines()
    patterns = [line.split()[0] for line in lines if line and not line.startswith("#")]
    names = [name.split("::")[-1].split("[")[0] for kind, name, _ in outcomes if kind == "left out"]
    return [pattern for pattern in patterns if not fnmatch.filter(names, pattern)]


def main():
    # After the folder of this file is on the path.
    from devtools_testutils import resources

    folder, server = pathlib.Path(sys.argv[1]) / "servicebus-upstream", pathlib.Path(sys.argv[2])
    tests = install(folder)
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        certificate(work, resources.HOST)
        (work / "keys.toml").write_text(keys(resources, "queue-with-key"))
        (work / "empty.toml").touch()
        parts = [(paths, number, count) for paths, count in PARTS for number in range(count)]
        with concurrent.futures.ThreadPoolExecutor(len(parts)) as pool:
            outcomes = [each for part in pool.map(lambda part: run(part, tests, server, work), parts) for each in part]
    outcomes += [("failed", pattern, ["left-out.txt has it, and it leaves out no test"]) for pattern in unused(outcomes)]
    for kind, name, text in sorted(outcomes):
        if kind != "passed":
            print(kind, name, *text, sep=": " if text else "")
    counts = {kind: sum(each[0] == kind for each in outcomes) for kind in ("passed", "failed", "left out")}
    print(f"azure-servicebus {VERSION}:", ", ".join(f"{count} {kind}" for kind, count in counts.items()))
    sys.exit(1 if counts["failed"] else 0)


if __name__ == "__main__":
    main()
