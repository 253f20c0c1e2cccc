// See it work: plays the saved file, and shows each exhibit as it comes.

import { send } from "./studio.js";
import { isShown, onShow } from "./views.js";

const $ = (id) => document.getElementById(id);

/**
 * The play of a problem. `digest` returns the hash of the file as it is saved, and `link` is called with an element that shows
 * the learner's own lines. Returns the handlers of its events.
 */
export function player(path, digest, link) {
  let playing = false;
  let shown; // the hash of the file that is or was played
  let count = 0;

  const say = (words) => ($("play-said").textContent = words);

  function set(isPlaying) {
    playing = isPlaying;
    $("play-button").textContent = playing ? "Stop" : shown === undefined ? "Play" : "Play again";
    $("exhibits").setAttribute("aria-busy", String(playing));
    $("training").hidden = true;
    $("play-step").textContent = "";
  }

  async function play() {
    const { status, body } = await send(`${path}/play`, "POST", { text: $("play-text")?.value ?? "" });
    if (status !== 202) say(body.error);
  }

  /** Plays if the view can be seen and shows another text than the one that is saved. */
  function follow() {
    if (isShown("play") && !playing && shown !== digest()) play();
  }

  $("play-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (playing) send(`${path}/play/stop`, "POST");
    else play();
  });
  onShow(follow);

  return {
    handlers: {
      play({ text, digest }) {
        shown = digest;
        count = 0;
        set(true);
        if (text !== null) $("play-text").value = text;
        $("exhibits").replaceChildren();
        say("Playing…");
      },
      training({ step, steps, loss }) {
        $("training").hidden = false;
        Object.assign($("training"), { value: step, max: steps });
        $("play-step").textContent = `step ${step} of ${steps}, loss ${loss}`;
      },
      exhibit({ title, html }) {
        count += 1;
        $("training").hidden = true;
        $("play-step").textContent = "";
        $("exhibits").insertAdjacentHTML("beforeend", html); // escaped by the studio
        say(`Shown: ${title}.`);
      },
      played({ said, html }) {
        set(false);
        const end = document.createElement("div");
        end.innerHTML = html; // escaped by the studio
        $("exhibits").append(end);
        link(end);
        const exhibits = `${count} ${count === 1 ? "exhibit" : "exhibits"}`;
        if (end.querySelector(".ending")) say(`The play ended early, after ${exhibits}.`); // which says why
        else say(said || `The play is over: ${exhibits} of your file as it is saved.`);
      },
    },
  };
}
