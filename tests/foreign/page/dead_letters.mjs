// Dead letters: groups, trails, and what is done with them.

import { data, journey, require, same, Server, until, withServer } from "./support.mjs";

journey("dead_letters_of_five_reasons_are_grouped", async (v) => {
  await v.deadLetters("orders");
  await v.has("10000 dead letters by reason and first error");
  same("the groups", await v.count("tbody tr"), 5);
  same("the counts", await v.page.locator('td[data-label="Count"]').allInnerTexts(), Array(5).fill("2000"));
  await v.has("order # was not stored: connection refused");
  await v.shot("groups");
});

journey("a_group_is_listed_page_by_page", async (v) => {
  await v.deadLetters("orders");
  await v.link("HandlerFailed");
  same("the rows", await v.count("tbody tr"), 50);
  same("the first number", await v.text("tbody th"), "2");
  await v.link("Next page");
  same("the first number of the second page", await v.text("tbody th"), "252");
});

journey("a_dead_letter_shows_its_trail", async (v) => {
  await v.deadLetters("refunds");
  await v.has("json: Type at order");
  await v.link("DeserializationFailed");
  await v.firstMessage();
  for (const text of ["Why it is a dead letter", "expected u32, found text, at order", "msgpack", "fallback"]) await v.has(text);
  await v.shot("dead-letter", true);
});

journey("one_is_edited_and_its_copy_arrives", async (v) => {
  await v.deadLetters("payments");
  await v.link("DeserializationFailed");
  await v.firstMessage();
  await v.link("Edit and resubmit …");
  await v.shot("edit");
  same("the body", await v.page.getByLabel("Body").inputValue(), '{"order":"0","amount":12.50}');
  await v.page.getByLabel("Body").fill('{"order":17,"amount":12.50}');
  await v.page.getByLabel("Subject").fill("fixed");
  await v.page.getByLabel("Application properties").fill('{"tenant":"north","attempt":{"i32":5}}');
  await v.shot("edited", true);
  await v.button("Resubmit");
  await v.has("A copy of dead letter 1 was sent to payments.");
  const [message, ...others] = await v.server.drain("payments", 1);
  same("the copy", [message.body, message.subject, others.length], [{ order: 17, amount: 12.5 }, "fixed", 0]);
  const { tenant, attempt } = message.applicationProperties;
  same("its properties", { tenant, attempt }, { tenant: "north", attempt: 5 });
  same("the dead letters that stay", await v.figure("dead"), "2");
});

journey("a_group_is_resubmitted_with_progress", async (v) => {
  await v.deadLetters("orders");
  await v.link("Resubmit the group UnsupportedContentType");
  await v.has("Resubmit 2000 dead letters");
  await v.page.getByLabel("Most messages in a second").fill("200");
  await v.shot("confirm");
  await v.button("Resubmit");
  await until("progress is shown", async () => {
    const done = await v.jobDone();
    require(done < 2000, "the job is done and no progress was seen");
    return done > 0;
  });
  await v.shot("job");
  await until("the job is done", async () => (await v.jobState()) === "done");
  same("the copies", await v.jobDone(), 2000);
  await v.deadLetters("orders");
  same("the groups that stay", await v.count("tbody tr"), 4);
  await until("the count is live", async () => (await v.figure("active")) === "2120");
});

journey("a_job_survives_kills_and_sends_nothing_twice", async (v) => {
  let server = await Server.start(...data("killed"));
  try {
    v.server = server;
    await v.deadLetters("invoices");
    await v.link("Resubmit all …");
    await v.page.getByLabel("Most messages in a second").fill("100");
    await v.button("Resubmit");
    const job = v.page.url().split("/$page/")[1];
    let done = 0;
    for (let kill = 0; kill < 2; kill++) {
      await until("some more are done", async () => (await v.jobDone()) > done + 50);
      await server.kill();
      server = await Server.start(...data("killed"));
      v.server = server;
      await v.go(job);
      await until("the job runs again", async () => (await v.jobDone()) > done);
      done = await v.jobDone();
      require(done < 1000, `it was killed too late: ${done}`);
    }
    await v.shot("job-after-kills");
    await until("the job is done", async () => (await v.jobState()) === "done");
    same("the copies", await v.jobDone(), 1000);
    const orders = (await server.drain("invoices", 1000)).map((message) => message.body.order).sort((one, other) => one - other);
    same("what arrived", orders, Array.from({ length: 1000 }, (_, number) => number));
    await v.deadLetters("invoices");
    await v.has("There are no dead letters.");
  } finally {
    await server.stop();
  }
}, { quiet: false });

journey("a_removal_is_undone", (v) => withServer([...data("undone"), "--undo-window", "10m"], async (server) => {
  v.server = server;
  await v.deadLetters("removed");
  await v.link("Remove all …");
  await v.has("it can be undone");
  await v.button("Remove");
  await v.button("Undo");
  await v.has("stopped");
  await v.deadLetters("removed");
  await v.has("20 dead letters by reason");
}));

journey("dead_letters_and_messages_are_removed", async (v) => {
  for (const [start, link, figure] of [["deadLetters", "Remove all …", "dead"], ["messages", "Remove all messages …", "active"]]) {
    await v[start]("removed");
    same("the count before", await v.figure(figure), "20");
    await v.link(link);
    await v.button("Remove");
    await until("the job is done", async () => (await v.jobState()) === "done");
    await v[start]("removed");
    same("the count", await v.figure(figure), "0");
  }
});

journey("a_copy_is_written_in_another_format", async (v) => {
  await v.deadLetters("transcoded");
  await v.link("Resubmit all …");
  await v.page.getByLabel("Format of the copies").selectOption("application/json");
  await v.button("Resubmit");
  await until("the job is done", async () => (await v.jobState()) === "done");
  const [message] = await v.server.drain("transcoded", 1);
  same("the copy", [message.contentType, message.body], ["application/json", { sku: "a", count: 3 }]);
});

journey("a_job_is_stopped", async (v) => {
  await v.deadLetters("orders");
  await v.link("Resubmit the group HandlerFailed");
  await v.page.getByLabel("Most messages in a second").fill("50");
  await v.button("Resubmit");
  await until("some are done", async () => (await v.jobDone()) > 0);
  await v.button("Stop");
  await v.has("stopped");
  await v.deadLetters("orders");
  await v.has("HandlerFailed");
  await v.link("Jobs");
  require((await v.count(".job")) > 0, "jobs are listed");
  await v.shot("jobs");
});
