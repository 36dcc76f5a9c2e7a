//! The deletes that the API server rejected, until they succeed or the object is gone.

use std::collections::{BTreeMap, BTreeSet};

use firebolt_core::compare::engine::EngineObjects;
use firebolt_core::plan::engine::{DeletedObject, RefusedDelete};
use firebolt_runtime::ReconcileError;
use firebolt_runtime::reconciler::RejectionBackoff;

/// The rejected deletes of one engine, by the UID of the object.
#[derive(Debug, Default)]
pub(super) struct RefusedDeletes(BTreeMap<String, Refusal>);

#[derive(Debug)]
struct Refusal {
    object: String,
    cause: String,
    backoff: RejectionBackoff,
}

impl RefusedDeletes {
    /// A delete was sent.
    pub(super) fn note(&mut self, object: &DeletedObject, deleted: &Result<(), ReconcileError>) {
        let before = self.0.remove(&object.uid);
        let Some(rejected) = deleted.as_ref().err().and_then(ReconcileError::rejected_write) else {
            return;
        };
        let refusal = Refusal {
            object: format!("{:?} {}", object.kind, object.name),
            cause: rejected.message,
            backoff: RejectionBackoff::after(before.map(|before| before.backoff)),
        };
        self.0.insert(object.uid.clone(), refusal);
    }

    /// Drops those of objects that do not exist any more.
    pub(super) fn retain(&mut self, objects: &EngineObjects) {
        if !self.0.is_empty() {
            let existing: BTreeSet<&str> = objects.uids().collect();
            self.0.retain(|uid, _| existing.contains(uid.as_str()));
        }
    }

    /// What a plan has to know about them.
    pub(super) fn for_plan(&self) -> Vec<RefusedDelete> {
        let refused = self.0.iter().map(|(uid, refusal)| RefusedDelete {
            object: refusal.object.clone(),
            uid: uid.clone(),
            cause: refusal.cause.clone(),
            retry_after: refusal.backoff.remaining().unwrap_or_default(),
        });
        refused.collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firebolt_core::plan::engine::EngineObjectKind;
    use k8s_openapi::api::core::v1::Service;

    use super::super::fixture::rejected;
    use super::*;

    fn service() -> DeletedObject {
        DeletedObject {
            kind: EngineObjectKind::Service,
            name: "a-g0-hl".to_owned(),
            uid: "u".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rejected_delete_is_known_until_it_succeeds() {
        let mut refused = RefusedDeletes::default();
        refused.note(&service(), &Err(rejected("Service", 403, "a policy forbids it")));
        let known = refused.for_plan();
        assert_eq!(
            (known[0].object.as_str(), known[0].cause.as_str()),
            ("Service a-g0-hl", "a policy forbids it")
        );
        assert_eq!(known[0].retry_after, Duration::from_secs(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(refused.for_plan()[0].retry_after, Duration::ZERO);
        refused.note(&service(), &Err(rejected("Service", 403, "a policy forbids it")));
        assert_eq!(refused.for_plan()[0].retry_after, Duration::from_secs(2));
        refused.note(&service(), &Ok(()));
        assert!(refused.is_empty());
    }

    #[test]
    fn an_object_that_is_gone_is_forgotten() {
        let mut refused = RefusedDeletes::default();
        let rejection = || Err(rejected("Service", 403, "a policy forbids it"));
        refused.note(&service(), &rejection());
        let mut existing = Service::default();
        existing.metadata.uid = Some("u".to_owned());
        let objects = EngineObjects {
            services: vec![existing],
            ..EngineObjects::default()
        };
        refused.retain(&objects);
        assert!(!refused.is_empty());
        refused.retain(&EngineObjects::default());
        assert!(refused.is_empty());
    }
}
