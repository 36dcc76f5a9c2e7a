//! Which events of an object are new.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::event::{Event, EventType};

/// How often a warning whose message keeps changing is emitted.
const REWORDED: Duration = Duration::from_mins(1);
/// Messages per reason that are recognised when they come back.
const MESSAGES: usize = 8;
/// Reasons that are remembered.
const REASONS: usize = 32;

/// The warnings that were emitted about one object. Every reconcile plans a warning while its cause lasts; users want to see
/// it once, and not each change of its message.
#[derive(Debug, Default)]
pub struct EventDeduplicator {
    warnings: HashMap<String, Warnings>,
}

/// The warnings with one reason.
#[derive(Debug)]
struct Warnings {
    messages: Vec<String>,
    last: Instant,
}

impl EventDeduplicator {
    /// Whether to emit the event. It then counts as emitted.
    pub(super) fn is_new(&mut self, event: &Event) -> bool {
        match event.type_ {
            EventType::Normal => true,
            EventType::Warning => self.is_new_warning(&event.reason, without_count(&event.message)),
        }
    }

    fn is_new_warning(&mut self, reason: &str, text: &str) -> bool {
        let now = Instant::now();
        let Some(known) = self.warnings.get_mut(reason) else {
            let warnings = Warnings {
                messages: vec![text.to_owned()],
                last: now,
            };
            // Warnings of Kubernetes have few reasons; if a client invents more, memory stays bounded.
            if self.warnings.len() >= REASONS {
                self.warnings.clear();
            }
            self.warnings.insert(reason.to_owned(), warnings);
            return true;
        };
        let is_known = known.messages.iter().any(|message| message == text);
        // The first change of the message is emitted at once: most often one cause was removed and another one appeared.
        if is_known || (known.messages.len() > 1 && now - known.last < REWORDED) {
            return false;
        }
        known.messages.truncate(MESSAGES - 1);
        known.messages.insert(0, text.to_owned());
        known.last = now;
        true
    }

    /// The object is healthy again: a warning that comes back is new.
    pub fn reset(&mut self) {
        self.warnings.clear();
    }
}

/// Kubernetes appends the number of repetitions to some messages; it does not make a message new.
fn without_count(message: &str) -> &str {
    let Some((text, count)) = message.rsplit_once(" (x") else {
        return message;
    };
    let is_count = count
        .strip_suffix(')')
        .is_some_and(|count| count.parse::<u32>().is_ok());
    if is_count { text } else { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(type_: EventType, message: &str) -> Event {
        Event {
            type_,
            reason: "R".to_owned(),
            message: message.to_owned(),
        }
    }

    fn warns(events: &mut EventDeduplicator, text: &str) -> bool {
        events.is_new(&event(EventType::Warning, text))
    }

    #[tokio::test(start_paused = true)]
    async fn a_warning_is_emitted_once_until_the_object_is_healthy_again() {
        let mut events = EventDeduplicator::default();
        assert!(warns(&mut events, "a"));
        assert!(!warns(&mut events, "a"));
        assert!(!warns(&mut events, "a (x12)"));
        assert!(warns(&mut events, "b (xyz)"));
        events.reset();
        assert!(warns(&mut events, "a"));
        assert!(events.is_new(&event(EventType::Normal, "c")) && events.is_new(&event(EventType::Normal, "c")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_warning_whose_message_keeps_changing_is_emitted_once_per_minute() {
        let mut events = EventDeduplicator::default();
        assert!(warns(&mut events, "1 restart") && warns(&mut events, "2 restarts"));
        assert!(!warns(&mut events, "3 restarts"));
        assert!(
            !warns(&mut events, "1 restart"),
            "two messages that alternate are emitted once each"
        );
        tokio::time::advance(REWORDED).await;
        assert!(warns(&mut events, "4 restarts"));
        for restarts in 0..100 {
            tokio::time::advance(REWORDED).await;
            assert!(warns(&mut events, &format!("{restarts} more")));
        }
        assert_eq!(events.warnings["R"].messages.len(), MESSAGES);
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_remembered_reasons_is_bounded() {
        let mut events = EventDeduplicator::default();
        for number in 0..1_000 {
            let reason = format!("R{number}");
            assert!(events.is_new_warning(&reason, "a"));
            assert!(!events.is_new_warning(&reason, "a"));
        }
        assert!(events.warnings.len() <= REASONS);
    }
}
