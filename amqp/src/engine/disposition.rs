use super::{
    CommandError, Connection, DeliveryId, DeliveryList, Event, LinkId, Violation, input::Fault, tracker::extend,
};
use crate::types::{DeliveryState, Disposition, Role};

impl Connection {
    /// Reports the state of deliveries of a link, in either direction, and settles them if `settled`. Returns how many were tracked.
    ///
    /// Ids that are not tracked are skipped: settled before, or sent settled. Consecutive ids with an equal state go into one frame,
    /// also those of consecutive calls.
    ///
    /// # Errors
    /// The link is detached or not answered, or the state cannot be encoded or is too large for a frame. What precedes the error has
    /// been done.
    pub fn settle(
        &mut self,
        link: LinkId,
        deliveries: impl IntoIterator<Item = DeliveryId>,
        state: Option<&DeliveryState>,
        settled: bool,
    ) -> Result<usize, CommandError> {
        let (session, out) = self.link_session(link)?;
        let slot = session.live_link(link)?;
        slot.expect_own_attach()?;
        let role = slot.role();
        let tracker = match role {
            Role::Sender => &mut session.outgoing,
            Role::Receiver => &mut session.incoming,
        };
        let mut count = 0;
        for id in deliveries {
            if tracker.contains(link, id) {
                out.disposition(link.session.channel, role, id.number(), state, settled)?;
                if settled {
                    tracker.remove(id);
                }
                count += 1;
            }
        }
        Ok(count)
    }

    /// Takes the peer's report. Only tracked deliveries are looked at, whatever the range.
    pub(super) fn on_disposition(&mut self, local: u16, disposition: Disposition) -> Result<(), Fault> {
        let Some(session) = self.sessions.get_mut(usize::from(local)).and_then(Option::as_deref_mut) else {
            return Ok(());
        };
        let Disposition { role, first, last, settled, state, .. } = disposition;
        let span = last.unwrap_or(first).wrapping_sub(first);
        if span > u32::MAX / 2 {
            let violation = Violation::Field { field: "disposition.last", expected: "no delivery before the first" };
            return Err(Fault::Session(session.id, violation));
        }
        let (tracker, reference) = match role {
            Role::Receiver => (&mut session.outgoing, session.next_delivery),
            Role::Sender => (&mut session.incoming, session.last_delivery),
        };
        let first = extend(reference, first);
        let mut deliveries: Option<DeliveryList> = None;
        tracker.range(first, first.saturating_add(span.into()), settled, |link, id| match &mut deliveries {
            Some(list) => list.push((link, id)),
            none => *none = Some(DeliveryList::new((link, id))),
        });
        let tracked = deliveries.as_ref().map_or(0, DeliveryList::len);
        if let Some(DeliveryState::Transactional(transactional)) = &state
            && tracked <= span as usize
        {
            let txn_id = transactional.txn_id.clone();
            self.events.push_back(Event::TransactionIncomplete { session: session.id, txn_id });
        }
        if let Some(deliveries) = deliveries {
            self.events.push_back(Event::Disposition { session: session.id, role, deliveries, state, settled });
        }
        Ok(())
    }
}
