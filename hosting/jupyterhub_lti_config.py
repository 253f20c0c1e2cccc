"""The hub of a class whose learners come from a learning platform: `jupyterhub -f hosting/jupyterhub_lti_config.py`.
docs/lti.md explains it."""

import os
import secrets
import sys
from pathlib import Path
from typing import Any

from tornado.web import HTTPError

from commandline.errors import UsageError
from hosting.lti import registration
from hosting.lti.launch import RefusedLaunchError, accepted

c = get_config()  # noqa: F821  JupyterHub defines it
load_subconfig(str(Path(__file__).with_name("jupyterhub_config.py")))  # noqa: F821  the same

# ---- What differs from hub to hub. Each value can also be set in the environment.
FOLDER = Path(os.environ.get("HUB_FOLDER", "hub")).resolve()
PUBLIC = os.environ.get("HUB_PUBLIC", os.environ.get("HUB_ADDRESS", "http://127.0.0.1:8000"))  # as browsers reach it

# ---- The platform signs people in.
CLASS = FOLDER / "class"
LTI = CLASS / "lti"
PLATFORMS = LTI / "platforms.toml"
try:
    platforms = registration.read(PLATFORMS)
except UsageError as error:
    sys.exit(str(error))
if len(platforms) > 1:
    sys.exit(f"{PLATFORMS} has {len(platforms)} platforms, and a hub signs in from one: start a hub for each.")
if PLATFORMS.stat().st_uid != os.geteuid():
    sys.exit(f"{PLATFORMS} says who signs in, so it has to belong to the user of the hub. Run `chown root` on it.")
PLATFORMS.chmod(0o644)  # the service reads it, and may not change it
for folder in (CLASS, LTI):
    folder.chmod(0o700)
for path in {LTI, *LTI.iterdir()} - {PLATFORMS}:  # the service's, also if root made them
    os.chown(path, CLASS.stat().st_uid, -1, follow_symlinks=False)
c.JupyterHub.authenticator_class = "ltiauthenticator.lti13.auth.LTI13Authenticator"
c.JupyterHub.public_url = PUBLIC
for platform in platforms:  # none before the registration, for which the service already has the tool's settings
    c.LTI13Authenticator.issuer = platform.issuer
    c.LTI13Authenticator.client_id = {platform.client_id}
    c.LTI13Authenticator.authorize_url = platform.authorization
    c.LTI13Authenticator.jwks_endpoint = platform.keys
c.LTI13Authenticator.username_key = "sub"  # never the e-mail address, which its owner can change
c.Authenticator.allow_all = True  # whom the platform lets open a link


def is_of_this_class(_authenticator: object, _handler: object, authentication: dict[str, Any]) -> dict[str, Any]:
    """Refuses launches of other deployments, and ids that the hub would take for another user's."""
    try:
        launch = accepted(authentication["auth_state"], platforms)
    except RefusedLaunchError as error:
        raise HTTPError(403, str(error)) from None
    if launch.user != authentication["name"]:
        raise HTTPError(403, f"The hub cannot have a user {launch.user!r}, because its names have lower case only.")
    return authentication


c.Authenticator.post_auth_hook = is_of_this_class

# ---- The service learns from the hub who somebody is at the platform.
key = FOLDER / "crypt_key"
if not key.exists():
    key.write_text(secrets.token_hex(32))  # for its owner alone, by the umask of jupyterhub_config.py
c.CryptKeeper.keys = [key.read_text()]
c.LTI13Authenticator.enable_auth_state = True
c.JupyterHub.load_roles.append(
    {"name": "hand-in", "services": ["hand-in"], "scopes": ["admin:auth_state", "read:users"]}
)
