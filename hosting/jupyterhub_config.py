"""The hub of a class: `jupyterhub -f hosting/jupyterhub_config.py`. docs/hosting.md explains it line by line."""

import os
import shutil
import sys
from pathlib import Path

c = get_config()  # noqa: F821  JupyterHub defines it

# ---- What differs from hub to hub. Each value can also be set in the environment.
WAY = os.environ.get("HUB_WAY", "try")
LEARNERS = os.environ.get("HUB_LEARNERS", "ada bob").split()
TEACHERS = os.environ.get("HUB_TEACHERS", "teacher").split()
FOLDER = Path(os.environ.get("HUB_FOLDER", "hub")).resolve()
ADDRESS = os.environ.get("HUB_ADDRESS", "http://127.0.0.1:8000")  # where the proxy listens
INSIDE = os.environ.get("HUB_INSIDE", "172.17.0.1" if WAY == "docker" else "127.0.0.1")  # as learners' servers reach it
PORT = int(os.environ.get("HUB_SERVICE_PORT", "10101"))  # of the service that learners hand in to
USER = os.environ.get("HUB_SERVICE_USER", "" if WAY == "try" else "gpt-kata")  # whom that service runs as
SERVER = os.environ.get("HUB_SERVER", "studio")  # or "jupyter": JupyterHub's own server, with the studio inside
PROGRAMS = Path(os.environ.get("HUB_PROGRAMS", "" if WAY == "docker" else Path(sys.executable).parent))  # for learners
IMAGE = os.environ.get("HUB_IMAGE", "gpt-kata-learner")

# ---- Who signs in, and where the learners' servers run.
authenticator, spawner = {
    "try": ("native", "simple"),  # passwords at the first visit, and one user of the machine for everybody
    "users": ("pam", "localprocess"),  # users of the machine, with its passwords
    "systemd": ("native", "systemd"),  # a user and limits for each server, made by systemd
    "docker": ("native", "docker"),  # a container for each server
}[WAY]
os.umask(0o077)  # what the hub and the servers write is for their own user
CLASS = FOLDER / "class"
CLASS.mkdir(parents=True, exist_ok=True)
FOLDER.chmod(0o711)  # the service reaches its folder through it
if USER:
    shutil.chown(CLASS, USER)
c.JupyterHub.authenticator_class = authenticator
c.JupyterHub.spawner_class = spawner
c.Authenticator.allowed_users = {*LEARNERS, *TEACHERS}
c.Authenticator.admin_users = set(TEACHERS)
c.JupyterHub.bind_url = ADDRESS
c.JupyterHub.ssl_key = os.environ.get("HUB_TLS_KEY", "")
c.JupyterHub.ssl_cert = os.environ.get("HUB_TLS_CERT", "")
c.JupyterHub.subdomain_host = os.environ.get("HUB_SUBDOMAINS", "")  # a host for each learner below this address
c.JupyterHub.hub_ip = INSIDE
c.JupyterHub.db_url = f"sqlite:///{FOLDER}/jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = f"{FOLDER}/cookie_secret"
c.JupyterHub.cleanup_servers = WAY == "try"  # elsewhere, servers survive a restart of the hub
c.ConfigurableHTTPProxy.pid_file = f"{FOLDER}/proxy.pid"
c.NativeAuthenticator.minimum_password_length, c.NativeAuthenticator.allowed_failed_logins = 8, 5

# ---- A learner's server.
program, *words = {"studio": ["python", "-P", "-m", "studio.hub"], "jupyter": ["jupyterhub-singleuser"]}[SERVER]
c.Spawner.cmd = [str(PROGRAMS / program), *words]
c.Spawner.args = ["--allow-root"] if SERVER == "jupyter" and WAY == "try" and os.geteuid() == 0 else []
c.Spawner.default_url = "/gpt-kata/"
c.Spawner.environment = {"GPT_KATA_HAND_IN": f"http://{INSIDE}:{PORT}/services/hand-in/", "GPT_KATA_IDLE": "1"}
c.Spawner.mem_limit, c.Spawner.cpu_limit = "2G", 2.0  # where the way can limit: systemd and docker
c.Spawner.server_token_scopes = ["users:activity!user", "access:servers!server", "access:services!service=hand-in"]
c.SimpleLocalProcessSpawner.home_dir_template = f"{FOLDER}/homes/{{username}}"
c.SystemdSpawner.dynamic_users = c.SystemdSpawner.isolate_tmp = c.SystemdSpawner.isolate_devices = True
c.DockerSpawner.image, c.DockerSpawner.remove = IMAGE, True
c.DockerSpawner.volumes = {"gpt-kata-{username}": "/home/learner"}

# ---- Servers that nobody uses end; what learners hand in arrives.
WITH_HUB = [sys.executable, "-P", "-m", "grader.isolation.child", str(os.getpid())]  # ends when the hub was killed
CULLS = ["list:users", "read:users:activity", "read:servers", "delete:servers"]
c.JupyterHub.services = [
    {"name": "idle-culler", "command": [*WITH_HUB, "jupyterhub_idle_culler", "--timeout=1800"]},
    {
        "name": "hand-in",
        "url": f"http://{INSIDE}:{PORT}",
        "command": [sys.executable, "-P", "-m", "hosting", str(CLASS)],
        **({"user": USER} if USER else {}),
        "oauth_no_confirm": True,
    },
]
c.JupyterHub.load_roles = [
    {"name": "user", "scopes": ["self", "access:services!service=hand-in"]},
    {"name": "idle-culler", "services": ["idle-culler"], "scopes": CULLS},
]
