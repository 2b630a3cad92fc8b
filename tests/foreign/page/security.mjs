// Scripts in messages, keys, tokens and other sites.

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { journey, KEY, require, same, settings, withServer } from "./support.mjs";

const HOSTILE = "hostile<img src=x>";
const unbroken = async (v) => {
  require(!(await v.page.evaluate(() => window.broken)), "a script of a message has run");
  same("images in the page", await v.count("img"), 0);
};

journey("a_script_in_a_message_is_text", async (v) => {
  await v.messages(HOSTILE);
  await v.has("<script>window.broken = true</script>");
  await v.firstMessage();
  require((await v.text("pre")).startsWith("<script>window.broken"), "the body is shown");
  await unbroken(v);
  await v.shot("script");
});

journey("a_script_in_a_dead_letter_is_text", async (v) => {
  await v.go("?q=hostile");
  await v.has(HOSTILE);
  await v.click(v.page.getByRole("link", { name: `Dead letters of ${HOSTILE}` }));
  await v.has("<b>Reason</b>");
  await v.link("<b>Reason</b>");
  await v.firstMessage();
  await v.link("Edit and resubmit …");
  require((await v.page.getByLabel("Body").inputValue()).startsWith("<script>"), "the body is in the form");
  await unbroken(v);
});

const withKey = async (use) => {
  const file = join(settings.folder, "key");
  writeFileSync(file, `${KEY}\n`);
  await withServer(["--operator-key", file], use);
};

journey("a_wrong_key_shows_nothing", (v) => withKey(async (server) => {
  v.server = server;
  await v.go("messages?path=orders");
  await v.has("Sign in");
  await v.shot("login");
  await v.page.getByLabel("Key of the operators").fill("another key");
  await v.button("Sign in");
  await v.has("This is not the key.");
  await v.go("");
  await v.has("Key of the operators");
  same("metrics without the key", (await fetch(server.page.replace("/$page", "/metrics"))).status, 401);
}), { quiet: false });

journey("the_key_opens_the_page_until_it_is_left", (v) => withKey(async (server) => {
  v.server = server;
  await v.go("");
  await v.page.getByLabel("Key of the operators").fill(KEY);
  await v.page.keyboard.press("Enter");
  await v.page.getByRole("heading", { name: "Entities" }).waitFor();
  await v.button("Sign out");
  await v.has("Sign in");
  await v.go("");
  await v.has("Sign in");
}));

journey("a_form_without_a_token_does_nothing", async (v) => {
  await v.go("confirm?action=purge&path=formats");
  await v.page.evaluate(() => (document.querySelector("main input[name=csrf]").value = "00"));
  await v.button("Remove");
  await v.has("The form has no valid token.");
  await v.messages("formats");
  same("the messages", await v.figure("active"), "5");
}, { quiet: false });

journey("a_form_of_another_site_does_nothing", async (v) => {
  await v.go("confirm?action=purge&path=formats");
  const token = await v.page.locator("main input[name=csrf]").inputValue();
  // The same address by another name is another site. A document of the server would not send the form: its policy forbids it.
  const other = v.server.page.replace("127.0.0.1", "localhost");
  await v.page.route(`${other}/**`, (route) => route.fulfill({ contentType: "text/html", body: "<p>Another site</p>" }));
  await v.page.goto(`${other}/jobs`);
  const answered = v.page.waitForResponse((response) => response.request().method() === "POST");
  await v.page.evaluate(([address, token]) => {
    const form = document.createElement("form");
    Object.assign(form, { method: "post", action: address });
    for (const [name, value] of Object.entries({ csrf: token, action: "purge", path: "formats" })) {
      form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
    }
    document.body.append(form);
    form.submit();
  }, [`${v.server.page}/jobs`, token]).catch(() => {});
  same("the status", (await answered).status(), 403);
  await v.page.getByText("Another site has sent this form.").waitFor();
  await v.messages("formats");
  same("the messages", await v.figure("active"), "5");
}, { quiet: false });

journey("another_name_of_the_host_is_refused", async (v) => {
  const page = new URL(`${v.server.page}/`);
  const answer = await v.page.request.get(page.href, { headers: { host: "rebound.example.org" } });
  same("the status", answer.status(), 421);
}, { quiet: false });
