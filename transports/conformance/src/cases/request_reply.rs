//! K-33: a reply reaches its requester.

use super::prelude::*;

cases! {
    RequestReply:
        /// Rules: R-01.
        an_answer_goes_where_the_request_says,
        /// Rules: R-02.
        there_may_be_several_answers,
        /// Rules: R-01.
        replies_are_distinguished,
        /// Rules: R-05.
        requesters_share_a_queue_by_sessions [Sessions];
}

/// Receives a request and sends an answer for each body.
async fn answer<const N: usize>(bench: &Bench<'_>, requests: &EntityPath, bodies: [&'static str; N]) -> Verdict {
    let request = bench.receive(requests).await?;
    let (Some(reply_to), Some(id)) = (request.message.reply_to(), request.message.message_id()) else {
        return Err(Failure::behaviour("the request does not say who asks"));
    };
    let to = EntityPath::new(reply_to)?;
    for body in bodies {
        let mut reply = Message::builder().correlation_id(id.to_owned());
        if let Some(session) = request.message.reply_to_session_id() {
            reply = reply.session_id(session.to_owned());
        }
        bench.send(&to, reply.build(body)?).await?;
    }
    Ok(request.complete().await?)
}

fn request(id: &'static str, reply_to: &EntityPath) -> Result<Message, Failure> {
    Ok(Message::builder().message_id(id).reply_to(reply_to.to_string()).build("question")?)
}

async fn an_answer_goes_where_the_request_says(bench: &Bench<'_>) -> Verdict {
    let (requests, replies) =
        (bench.queue(QueueSettings::default()).await?, bench.queue(QueueSettings::default()).await?);
    bench.send(&requests, request("q-1", &replies)?).await?;
    answer(bench, &requests, ["yes"]).await?;
    let reply = bench.take(&replies).await?;
    ensure_eq!((text(&reply).as_str(), reply.correlation_id()), ("yes", Some("q-1")));
    bench.gone(&requests).await
}

async fn there_may_be_several_answers(bench: &Bench<'_>) -> Verdict {
    let (requests, replies) =
        (bench.queue(QueueSettings::default()).await?, bench.queue(QueueSettings::default()).await?);
    bench.send(&requests, request("q-1", &replies)?).await?;
    answer(bench, &requests, ["one", "two", "three"]).await?;
    let answers = bench.drain_messages(3, &replies).await?;
    ensure_eq!(texts(&answers), ["one", "two", "three"]);
    ensure!(answers.iter().all(|reply| reply.correlation_id() == Some("q-1")), "an answer to another request");
    Ok(())
}

async fn replies_are_distinguished(bench: &Bench<'_>) -> Verdict {
    let (requests, replies) =
        (bench.queue(QueueSettings::default()).await?, bench.queue(QueueSettings::default()).await?);
    bench.send(&requests, request("q-1", &replies)?).await?;
    bench.send(&requests, request("q-2", &replies)?).await?;
    answer(bench, &requests, ["first"]).await?;
    answer(bench, &requests, ["second"]).await?;
    let answers = bench.drain_messages(2, &replies).await?;
    let pairs: Vec<_> = answers.iter().map(|reply| (reply.correlation_id(), text(reply))).collect();
    ensure_eq!(pairs, [(Some("q-1"), "first".into()), (Some("q-2"), "second".into())]);
    Ok(())
}

async fn requesters_share_a_queue_by_sessions(bench: &Bench<'_>) -> Verdict {
    let requests = bench.queue(QueueSettings::default()).await?;
    let replies = bench.queue(QueueSettings::default().requires_session(true)).await?;
    // A requester waits on its own session before it has messages.
    let mut one = bench.accept_session(&replies, "requester-1").await?;
    let mut two = bench.accept_session(&replies, "requester-2").await?;
    for (id, session) in [("q-2", "requester-2"), ("q-1", "requester-1")] {
        let mut request = request(id, &replies)?;
        request.properties_mut().set_reply_to_session_id(session)?;
        bench.send(&requests, request).await?;
    }
    answer(bench, &requests, ["to 2"]).await?;
    answer(bench, &requests, ["to 1"]).await?;
    ensure_eq!(bench.drain_by(&mut one).await?, ["to 1"]);
    ensure_eq!(bench.drain_by(&mut two).await?, ["to 2"]);
    Ok(())
}
