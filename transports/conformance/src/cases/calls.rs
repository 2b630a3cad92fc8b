//! K-33: calls by `consign::rpc`.

use std::{
    future::Future,
    sync::Arc,
    task::{Context, Poll},
};

use consign::{
    codecs::{Codecs, Json, MessagePack},
    consumer::Consumer,
    routing::Body,
    rpc::{CallErrorKind, Client, Fault, FaultCode, ReplyQueue, Requester, Responder, ResponderStats},
    time::ManualClock,
    transport::{Capabilities, Capability, ReceiveError, Receiver, ReplySource, SendError, SendService},
};
use futures_util::future::{join, join_all};
use tokio::sync::oneshot;
use tower::{ServiceExt, service_fn};

use super::prelude::*;

cases! {
    RequestReply:
        /// Rules: R-01.
        a_hundred_calls_at_once_have_their_own_replies,
        /// Rules: R-34.
        a_request_that_cannot_be_decoded_is_answered_with_a_fault,
        /// Rules: R-35.
        a_handler_answers_with_a_fault_of_its_own,
        /// Rules: R-16.
        a_reply_has_the_format_of_its_request,
        /// Rules: R-200.
        the_deadline_travels_as_the_transport_can,
        /// Rules: R-202.
        a_call_that_is_over_is_not_handled,
        /// Rules: R-11.
        a_request_is_answered_under_the_id_that_its_sender_set,
        /// Rules: R-21.
        a_request_without_an_id_is_a_dead_letter,
        /// Rules: R-205.
        an_id_that_its_sender_did_not_set_is_marked,
        /// Rules: R-12.
        a_session_for_a_queue_without_sessions_is_no_refusal,
        /// Rules: R-22.
        a_reply_without_the_session_that_it_needs [Sessions],
        /// Rules: R-05.
        a_requester_has_a_session_of_a_shared_queue [Sessions];
}

/// Longer than a call takes.
const LONG: Duration = Duration::from_secs(60);
const CALLS: u64 = 100;

async fn square(Body(number): Body<u64>) -> Result<u64, Fault> {
    number.checked_mul(number).ok_or_else(|| Fault::application("TooLarge"))
}

/// Answers the requests that arrive meanwhile, with replies to one queue.
async fn answering<T>(
    bench: &Bench<'_>,
    requests: &EntityPath,
    replies: &EntityPath,
    meanwhile: impl Future<Output = Result<T, Failure>>,
) -> Result<(T, ResponderStats), Failure> {
    let sender = Arc::new(bench.transport.sender(replies).await?);
    let to = replies.as_str().to_owned();
    let senders = move |address: &EntityPath| {
        let sender = Arc::clone(&sender);
        let is_known = address.as_str() == to;
        is_known.then(|| service_fn(move |reply| sender.send(reply))).ok_or(SendError::new(ErrorKind::EntityNotFound))
    };
    // In virtual time a clock that begins now does not agree with one that began earlier.
    let clock = ManualClock::new(bench.backend.now().await);
    let codecs = Codecs::builder().with(Json::default()).with(MessagePack).build().map_err(unexpected)?;
    let responder = Responder::builder(senders).clock(clock).codecs(codecs).fallback(square).build();
    let responder = responder.map_err(unexpected)?;
    let stats = responder.stats();
    let (done, over) = oneshot::channel::<()>();
    let consumer = Consumer::new(bench.receiver(requests).await?, responder);
    let (ended, result) = join(consumer.run_until(over), async {
        let result = meanwhile.await;
        let _ = done.send(());
        result
    })
    .await;
    ended.map_err(unexpected)?;
    Ok((result?, stats))
}

/// Calls with the replies of `source`.
async fn calling<T, F: Future<Output = T>>(
    bench: &Bench<'_>,
    requests: &EntityPath,
    source: impl ReplySource,
    timeout: Duration,
    calls: impl FnOnce(Requester<SendService<DynSender>>) -> F,
) -> Result<T, Failure> {
    let sender = SendService::new(bench.transport.sender(requests).await?);
    let built = Requester::builder(sender).timeout(timeout).build(source);
    let (requester, replies) = built.map_err(unexpected)?;
    // The replies end with the last requester.
    let (ended, result) = join(replies.run(), calls(requester)).await;
    ended.map_err(unexpected)?;
    Ok(result)
}

/// Creates two queues, for requests and for replies.
async fn queues(bench: &Bench<'_>) -> Result<(EntityPath, EntityPath), Failure> {
    Ok((bench.queue(QueueSettings::default()).await?, bench.queue(QueueSettings::default()).await?))
}

async fn source(bench: &Bench<'_>, replies: &EntityPath) -> Result<ReplyQueue<DynReceiver>, Failure> {
    Ok(ReplyQueue::new(replies.as_str(), bench.transport.receiver(replies, ReceiveMode::PeekLock).await?))
}

/// Returns a request as another client sends it.
fn request(replies: &EntityPath) -> consign::message::MessageBuilder {
    Message::builder().content_type("application/json").reply_to(replies.to_string())
}

async fn a_hundred_calls_at_once_have_their_own_replies(bench: &Bench<'_>) -> Verdict {
    let (requests, replies) = queues(bench).await?;
    let source = source(bench, &replies).await?;
    let calls = calling(bench, &requests, source, LONG, async |requester| {
        let (client, orphans) = (Client::new(requester.clone(), Codecs::json()), requester);
        let answers = join_all((0..CALLS).map(|number| {
            let client = client.clone();
            async move { client.call::<u64>(&number).await }
        }));
        (answers.await, orphans.orphans())
    });
    let ((answers, orphans), stats) = answering(bench, &requests, &replies, calls).await?;
    for (number, answer) in (0..CALLS).zip(answers) {
        let answer = answer.map_err(unexpected)?;
        ensure_eq!(answer, number * number);
    }
    ensure_eq!((orphans, stats.answered(), stats.undelivered()), (0, CALLS, 0));
    bench.gone(&requests).await
}

async fn a_request_that_cannot_be_decoded_is_answered_with_a_fault(bench: &Bench<'_>) -> Verdict {
    let (requests, replies) = queues(bench).await?;
    let source = source(bench, &replies).await?;
    let calls = calling(bench, &requests, source, LONG, async |requester| {
        Client::new(requester, Codecs::json()).call::<u64>(&"no number").await
    });
    let (answer, stats) = answering(bench, &requests, &replies, calls).await?;
    let error = answer.err().ok_or_else(|| Failure::behaviour("text was read as a number"))?;
    ensure_eq!(error.fault().map(Fault::code), Some(&FaultCode::UndecodableRequest));
    ensure_eq!(stats.faults(), 1);
    bench.receive_dead(&requests).await?.complete().await?;
    Ok(())
}

async fn a_handler_answers_with_a_fault_of_its_own(bench: &Bench<'_>) -> Verdict {
    let (requests, replies) = queues(bench).await?;
    let source = source(bench, &replies).await?;
    let calls = calling(bench, &requests, source, LONG, async |requester| {
        Client::new(requester, Codecs::json()).call::<u64>(&u64::MAX).await
    });
    let (answer, stats) = answering(bench, &requests, &replies, calls).await?;
    let error = answer.err().ok_or_else(|| Failure::behaviour("a square of more than 64 bits"))?;
    ensure_eq!(error.fault().map(|fault| fault.code().as_str()), Some("TooLarge"));
    ensure_eq!(stats.faults(), 1);
    bench.gone(&requests).await
}

/// The client reads no other format.
async fn a_reply_has_the_format_of_its_request(bench: &Bench<'_>) -> Verdict {
    let (requests, replies) = queues(bench).await?;
    let source = source(bench, &replies).await?;
    let codecs = Codecs::builder().with(MessagePack).build().map_err(unexpected)?;
    let calls = calling(bench, &requests, source, LONG, async |requester| {
        Client::new(requester, codecs).call::<u64>(&12).await
    });
    let (answer, _) = answering(bench, &requests, &replies, calls).await?;
    ensure_eq!(answer.map_err(unexpected)?, 144);
    Ok(())
}

async fn the_deadline_travels_as_the_transport_can(bench: &Bench<'_>) -> Verdict {
    let (requests, replies) = queues(bench).await?;
    let source = source(bench, &replies).await?;
    let calls = calling(bench, &requests, source, LONG, async |requester| {
        // It is given up when the request has arrived.
        let call = requester.oneshot(Message::new("7"));
        let received = bench.receive(&requests);
        match futures_util::future::select(std::pin::pin!(call), std::pin::pin!(received)).await {
            futures_util::future::Either::Left((answer, _)) => Err(Failure::behaviour(format!("{answer:?}"))),
            futures_util::future::Either::Right((received, _)) => received,
        }
    });
    let delivery = calls.await??;
    let deadlines = (delivery.message.time_to_live(), delivery.message.timeout());
    if bench.capabilities().supports(Capability::TimeToLive) {
        ensure_eq!(deadlines, (Some(LONG), Ok(None)));
    } else {
        ensure_eq!(deadlines, (None, Ok(Some(LONG))));
    }
    Ok(delivery.complete().await?)
}

async fn a_call_that_is_over_is_not_handled(bench: &Bench<'_>) -> Verdict {
    let (requests, replies) = queues(bench).await?;
    let source = source(bench, &replies).await?;
    let timeout = bench.margin().max(Duration::from_millis(100));
    let answer = calling(bench, &requests, source, timeout, async |requester| {
        Client::new(requester, Codecs::json()).call::<u64>(&7).await
    });
    let error = answer.await?.err().ok_or_else(|| Failure::behaviour("nobody has answered"))?;
    ensure_eq!(error.kind(), CallErrorKind::Timeout);
    bench.wait_past(timeout).await;
    let waiting = async {
        bench.wait_past(Duration::ZERO).await;
        Ok(())
    };
    let ((), stats) = answering(bench, &requests, &replies, waiting).await?;
    let has_time_to_live = bench.capabilities().supports(Capability::TimeToLive);
    ensure_eq!((stats.answered(), stats.expired()), (0, u64::from(!has_time_to_live)));
    bench.nothing(&requests).await
}

async fn a_request_is_answered_under_the_id_that_its_sender_set(bench: &Bench<'_>) -> Verdict {
    let (requests, replies) = queues(bench).await?;
    let ids = async {
        bench.send(&requests, request(&replies).correlation_id("call-1").build("7")?).await?;
        bench.send(&requests, request(&replies).message_id("call-2").build("7")?).await?;
        bench.send(&requests, request(&replies).correlation_id("c").message_id("call-3").build("7")?).await?;
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(bench.take(&replies).await?.correlation_id().map(String::from));
        }
        Ok(ids)
    };
    let (mut ids, _) = answering(bench, &requests, &replies, ids).await?;
    ids.sort();
    ensure_eq!(ids, [Some("call-1".into()), Some("call-2".into()), Some("call-3".into())]);
    Ok(())
}

async fn a_request_without_an_id_is_a_dead_letter(bench: &Bench<'_>) -> Verdict {
    let (requests, replies) = queues(bench).await?;
    let fault = async {
        bench.send(&requests, request(&replies).build("7")?).await?;
        bench.take(&replies).await
    };
    let (fault, stats) = answering(bench, &requests, &replies, fault).await?;
    ensure_eq!((fault.correlation_id(), stats.answered()), (None, 0));
    let dead = bench.receive_dead(&requests).await?;
    ensure_eq!(dead.message.dead_letter_reason(), Some("MissingProperty"));
    Ok(dead.complete().await?)
}

async fn an_id_that_its_sender_did_not_set_is_marked(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send(&queue, Message::new("without")).await?;
    let without = bench.receive(&queue).await?;
    let id = without.message.message_id().map(String::from);
    ensure_eq!(without.message.is_message_id_stamped(), id.is_some());
    without.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "why")).await?;
    let dead = bench.receive_dead(&queue).await?;
    ensure_eq!(dead.message.is_message_id_stamped(), dead.message.message_id().is_some());
    ensure!(id.is_none() || dead.message.message_id() == id.as_deref(), "the dead letter has another id");
    dead.complete().await?;
    bench.send(&queue, Message::builder().message_id("mine").build("with")?).await?;
    let with = bench.take(&queue).await?;
    ensure_eq!((with.message_id(), with.is_message_id_stamped()), (Some("mine"), false));
    Ok(())
}

async fn a_session_for_a_queue_without_sessions_is_no_refusal(bench: &Bench<'_>) -> Verdict {
    let (requests, replies) = queues(bench).await?;
    let reply = async {
        let request = request(&replies).message_id("m").reply_to_session_id("mine");
        bench.send(&requests, request.build("7")?).await?;
        bench.take(&replies).await
    };
    let (reply, _) = answering(bench, &requests, &replies, reply).await?;
    ensure_eq!((text(&reply).as_str(), reply.correlation_id()), ("49", Some("m")));
    Ok(())
}

async fn a_reply_without_the_session_that_it_needs(bench: &Bench<'_>) -> Verdict {
    let requests = bench.queue(QueueSettings::default()).await?;
    let replies = bench.queue(QueueSettings::default().requires_session(true)).await?;
    bench.send(&requests, request(&replies).message_id("m").build("7")?).await?;
    let dead = answering(bench, &requests, &replies, bench.receive_dead(&requests));
    let (dead, stats) = dead.await?;
    ensure_eq!(dead.message.dead_letter_reason(), Some("MissingReplyToSessionId"));
    ensure_eq!((stats.answered(), stats.undelivered()), (0, 1));
    Ok(dead.complete().await?)
}

/// A session that is held, for replies.
struct SessionReplies<S> {
    session: S,
    address: String,
    id: String,
}

impl<S: consign::transport::Session> Receiver for SessionReplies<S> {
    type Lease = S::Lease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<S::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.session.poll_receive(cx, max, out)
    }

    fn stop(&mut self) {
        self.session.stop();
    }

    fn capabilities(&self) -> Capabilities {
        self.session.capabilities()
    }
}

impl<S: consign::transport::Session> ReplySource for SessionReplies<S> {
    fn address(&self) -> &str {
        &self.address
    }

    fn session_id(&self) -> Option<&str> {
        Some(&self.id)
    }

    fn is_exclusive(&self) -> bool {
        true
    }
}

async fn a_requester_has_a_session_of_a_shared_queue(bench: &Bench<'_>) -> Verdict {
    let requests = bench.queue(QueueSettings::default()).await?;
    let replies = bench.queue(QueueSettings::default().requires_session(true)).await?;
    let session = bench.accept_session(&replies, "requester-1").await?;
    let source = SessionReplies { session, address: replies.to_string(), id: "requester-1".into() };
    let calls = calling(bench, &requests, source, LONG, async |requester| {
        Client::new(requester, Codecs::json()).call::<u64>(&7).await
    });
    let (answer, _) = answering(bench, &requests, &replies, calls).await?;
    ensure_eq!(answer.map_err(unexpected)?, 49);
    Ok(())
}
