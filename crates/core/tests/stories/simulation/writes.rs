//! What the writes of a plan do to the objects.

use firebolt_api::key::Finalizer;
use firebolt_core::plan::engine::{
    DeletedObject, EngineObjectKind, EngineWrite, Generation, Pods, Routing, StatefulSet,
};
use firebolt_core::plan::{Meta, ObservedChild};

use super::Story;

impl Story {
    pub(super) fn perform(&mut self, write: &EngineWrite) {
        let meta = |uid: String| Meta {
            uid,
            owned: true,
            terminating: false,
            foreign_finalizers: Vec::new(),
        };
        let child = |uid: String| ObservedChild {
            meta: meta(uid),
            intact: true,
        };
        let replicas = self.engine.spec.replicas;
        let now = self.now;
        match write {
            EngineWrite::AddFinalizer => {
                self.engine.metadata.finalizers = Some(vec![Finalizer::Engine.key().to_owned()]);
            }
            EngineWrite::RemoveFinalizer => self.engine.metadata.finalizers = None,
            EngineWrite::ApplyConfigMap {
                generation: number,
                copy_of,
            } => {
                let image = self.rendered_image(*copy_of);
                self.seen(*number).config_map = Some(child(format!("config-{number}")));
                self.configs.insert(*number, (image, replicas));
            }
            EngineWrite::ApplyHeadlessService { generation: number } => {
                self.seen(*number).headless_service = Some(child(format!("headless-{number}")));
            }
            EngineWrite::CreateStatefulSet {
                generation: number,
                copy_of,
            } => {
                let image = self.rendered_image(*copy_of);
                let seen = self.seen(*number);
                assert!(seen.stateful_set.is_none(), "a StatefulSet is created once");
                seen.stateful_set = Some(StatefulSet {
                    meta: meta(format!("set-{number}")),
                    template_hash: Some(image),
                    tampered: false,
                    outdated: Vec::new(),
                    changes: Vec::new(),
                    replicas,
                    created: now,
                });
                seen.pods = Pods {
                    total: replicas,
                    ready: 0,
                };
            }
            EngineWrite::ApplyRoutingService { generation: number } => {
                self.observed.routing = Some(Routing {
                    meta: meta("routing".to_owned()),
                    target: Some(*number),
                    intact: true,
                });
            }
            EngineWrite::Delete(object) => self.remove(object),
            EngineWrite::SetReplicas { to, .. } => {
                self.engine.spec.replicas = *to;
                self.edited();
            }
        }
    }

    /// The image of the pods: the desired one, or that of the generation that is copied.
    fn rendered_image(&mut self, copy_of: Option<i64>) -> String {
        let source = copy_of.and_then(|number| self.seen(number).stateful_set.as_ref());
        let copied = source.and_then(|set| set.template_hash.clone());
        copied.unwrap_or_else(|| self.image.clone())
    }

    pub(super) fn seen(&mut self, number: i64) -> &mut Generation {
        self.observed.generations.entry(number).or_default()
    }

    fn remove(&mut self, object: &DeletedObject) {
        if object.uid == "routing" {
            self.observed.routing = None;
            return;
        }
        let (_, number) = object.uid.split_once('-').expect("a generation in the identity");
        let number: i64 = number.parse().expect("a number");
        let seen = self.seen(number);
        match object.kind {
            EngineObjectKind::StatefulSet => {
                seen.stateful_set = None;
                seen.pods = Pods::default();
            }
            EngineObjectKind::Service => seen.headless_service = None,
            EngineObjectKind::ConfigMap => seen.config_map = None,
            EngineObjectKind::Pod => seen.orphans.clear(),
        }
        if seen.stateful_set.is_none() && seen.headless_service.is_none() && seen.config_map.is_none() {
            self.observed.generations.remove(&number);
        }
    }
}

pub(super) fn describe(write: &EngineWrite) -> String {
    match write {
        EngineWrite::AddFinalizer => "add the finalizer".to_owned(),
        EngineWrite::RemoveFinalizer => "remove the finalizer".to_owned(),
        EngineWrite::ApplyConfigMap { generation, copy_of } => {
            format!("apply ConfigMap a-g{generation}-config{}", copied(*copy_of))
        }
        EngineWrite::ApplyHeadlessService { generation } => format!("apply Service a-g{generation}-hl"),
        EngineWrite::CreateStatefulSet { generation, copy_of } => {
            format!("create StatefulSet a-g{generation}{}", copied(*copy_of))
        }
        EngineWrite::ApplyRoutingService { generation } => format!("apply Service a-service -> g{generation}"),
        EngineWrite::Delete(DeletedObject { kind, name, .. }) => format!("delete {kind:?} {name}"),
        EngineWrite::SetReplicas { from, to, .. } => format!("patch spec.replicas {from} -> {to}"),
    }
}

fn copied(copy_of: Option<i64>) -> String {
    copy_of.map_or(String::new(), |number| format!(" as a copy of g{number}"))
}
