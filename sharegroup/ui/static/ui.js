// Renews what changes (#live) every five seconds, and asks before a form that cannot be taken back. Pages work without.
"use strict";

const auto = document.getElementById("auto");
auto.closest("label").hidden = false;

async function renew() {
  const live = document.getElementById("live");
  if (!auto.checked || document.hidden || live.contains(document.activeElement)) return;
  const answer = await fetch(location.href, { credentials: "same-origin" });
  if (!answer.ok) throw new Error(String(answer.status));
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("live");
  if (fresh && !live.contains(document.activeElement)) {
    const places = [...live.querySelectorAll(".wide")].map((part) => part.scrollLeft);
    live.replaceWith(fresh);
    fresh.querySelectorAll(".wide").forEach((part, index) => { part.scrollLeft = places[index] || 0; });
  }
}

async function keepRenewing() {
  document.body.classList.remove("stale");
  try {
    await renew();
  } catch {
    document.body.classList.add("stale");
  }
  setTimeout(keepRenewing, 5000);
}

setTimeout(keepRenewing, 5000);

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.ask;
  if (question && !confirm(question)) event.preventDefault();
});
