// Live counts, plots and progress. The page works without it.
"use strict";

(() => {
  const address = document.body.dataset.watch;
  if (!address || !window.EventSource) return;

  const text = (element, value) => {
    if (element && element.textContent !== String(value)) element.textContent = value;
  };

  const entities = new Map();
  for (const element of document.querySelectorAll("[data-entity]")) entities.set(element.dataset.entity, element);

  const showEntity = (entity) => {
    const element = entities.get(entity.path);
    if (!element) return;
    for (const count of element.querySelectorAll("[data-count]")) text(count, entity[count.dataset.count]);
    for (const plot of element.querySelectorAll("[data-plot]")) plot.setAttribute("points", entity[plot.dataset.plot]);
  };

  const showJob = (job) => {
    const element = document.querySelector(`[data-job="${CSS.escape(job.id)}"]`);
    if (!element) return;
    text(element.querySelector("[data-job-done]"), job.done);
    text(element.querySelector("[data-job-failed]"), job.failed);
    text(element.querySelector("[data-job-state]"), job.state);
    const progress = element.querySelector("progress");
    if (job.matching > 0) {
      progress.max = job.matching;
      progress.value = job.done + job.failed;
    } else if (job.is_ended) {
      progress.max = 1;
      progress.value = 1;
    }
    const stop = element.querySelector("[data-job-stop]");
    stop.hidden = job.is_ended;
    text(stop.querySelector("button"), job.is_waiting ? "Undo" : "Stop");
  };

  const stream = new EventSource(address);
  stream.onmessage = (event) => {
    const update = JSON.parse(event.data);
    update.entities.forEach(showEntity);
    update.jobs.forEach(showJob);
  };
  // A page in the background needs no stream. It connects again when it is shown.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    if (stream.readyState === EventSource.CLOSED) location.reload();
  });
  window.addEventListener("pagehide", () => stream.close());
})();
