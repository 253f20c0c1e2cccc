"""A JupyterHub that signs people in with the tool's registration, configured as docs/lti.md says.

Needs jupyterhub, jupyterhub-ltiauthenticator, and configurable-http-proxy of npm; skipped where one is missing.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import httpx2
import pytest

from hosting.lti.launch import accepted
from hosting.lti.tool import PLATFORMS
from tests.conftest import ROOT
from tests.hosting.lti.conftest import Browser, folder_for, parsed, served
from tests.hosting.lti.platform import COURSE, LearningPlatform

PROXY = shutil.which("configurable-http-proxy")
TOKEN = "t" * 40
MORE = """
c.JupyterHub.bind_url = "http://127.0.0.1:{hub}"
c.JupyterHub.hub_port = {inner}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy}"
c.JupyterHub.services = [{{"name": "hand-in", "api_token": "{token}"}}]
c.JupyterHub.load_roles = [{{"name": "hand-in", "services": ["hand-in"], "scopes": ["admin:auth_state", "read:users"]}}]
"""


@pytest.mark.skipif(not (PROXY and find_spec("jupyterhub") and find_spec("ltiauthenticator")), reason="no JupyterHub")
def test_one_registration_serves_the_hub_and_the_tool(tmp_path: Path, canvas: LearningPlatform):
    folder = folder_for(tmp_path / "lti", canvas)
    hub, inner, proxy = (free_port() for _ in range(3))
    text = (ROOT / "docs" / "lti.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    text = text.replace(f"/srv/gpt-kata/lti/{PLATFORMS}", str(folder / PLATFORMS))
    (tmp_path / "config.py").write_text(text + MORE.format(hub=hub, inner=inner, proxy=proxy, token=TOKEN))
    env = os.environ | {"JUPYTERHUB_CRYPT_KEY": "a" * 64, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-m", "jupyterhub", "-f", "config.py", "--log-level=ERROR"]
    address = f"http://127.0.0.1:{hub}/hub"
    with subprocess.Popen(command, cwd=tmp_path, env=env) as process:
        try:
            wait_for(f"{address}/api/")
            with served(folder, canvas, hub_login=f"{address}/lti13/oauth_login") as site, Browser().http as http:
                canvas.redirect_addresses.append(f"{address}/lti13/oauth_callback")
                browser = Browser()
                home = browser.open(canvas.login("17", f"{address}/home"))
                assert (home.status_code, str(home.url)) == (200, f"{address}/home")
                answer = http.get(f"{address}/api/users/17", headers={"Authorization": f"token {TOKEN}"})
                launch = accepted(answer.json()["auth_state"], site.tool.platforms)
                assert (launch.user, launch.course, launch.is_learner) == ("17", COURSE, True)
                assert parsed(browser.open(canvas.login("17", f"{site.address}/launch"))) == {"user": "17"}
                browser.http.close()
        finally:
            process.terminate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def wait_for(address: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if httpx2.get(address, trust_env=False).is_success:
                return
        except httpx2.HTTPError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"{address} does not answer")
