"""Make the environment of each peer, and of this library, under `.peers/`: those that are there already are kept."""

import argparse
import subprocess
import sys
import venv

from environments import FOLDER, OWN, PEERS, ROOT


def make(name: str, *installs: list[str]) -> None:
    """Install one system, and say so only when it imports."""
    environment = FOLDER / name
    ready, python = environment / "ready", environment / "bin" / "python"
    wanted = "; ".join(" ".join(install) for install in installs)
    if ready.exists() and ready.read_text() == wanted:
        print(f"{name}: ready")
        return
    print(f"{name}: installing {wanted}", flush=True)
    venv.create(environment, clear=True, with_pip=True)
    for install in installs:
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *install], check=True, cwd=ROOT)
    subprocess.run([str(python), "-c", f"import {name}"], check=True)
    ready.write_text(wanted)


def make_named(name: str) -> None:
    if name == OWN:
        make(name, ["--constraint", "constraints.txt", "--editable", ".[fast]"])
    else:
        peer = PEERS[name]
        make(name, list(peer.needs), [*([] if peer.all_dependencies else ["--no-deps"]), peer.package])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], OWN, *PEERS], help="which systems (default: all)")
    names = parser.parse_args().names or [OWN, *PEERS]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n")
    for name in names:
        try:
            make_named(name)
        except subprocess.CalledProcessError as error:
            sys.exit(f"{name}: {' '.join(map(str, error.cmd))} failed with exit code {error.returncode}")


if __name__ == "__main__":
    main()
