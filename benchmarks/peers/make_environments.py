"""Make the environment of each peer under `.peers/`: those that are there already are kept."""

import argparse
import subprocess
import sys
import venv

from environments import FOLDER, PEERS, Peer


def make(name: str, peer: Peer) -> None:
    """Install one peer, and say so only when it imports."""
    environment = FOLDER / name
    ready = environment / "ready"
    wanted = " ".join((peer.package, *peer.needs))
    if ready.exists() and ready.read_text() == wanted:
        print(f"{name}: ready")
        return
    print(f"{name}: installing {wanted}", flush=True)
    venv.create(environment, clear=True, with_pip=True)
    install = [str(peer.python(name)), "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, *peer.needs], check=True)
    subprocess.run([*install, *([] if peer.all_dependencies else ["--no-deps"]), peer.package], check=True)
    subprocess.run([str(peer.python(name)), "-c", f"import {name}"], check=True)
    ready.write_text(wanted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *PEERS], help="which peers (default: all)")
    names = parser.parse_args().names or list(PEERS)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n")
    for name in names:
        try:
            make(name, PEERS[name])
        except subprocess.CalledProcessError as error:
            sys.exit(f"{name}: {' '.join(map(str, error.cmd))} failed with exit code {error.returncode}")


if __name__ == "__main__":
    main()
