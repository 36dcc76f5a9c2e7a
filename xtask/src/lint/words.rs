//! Words that this project once had for things that Kubernetes and its controllers have a name for.
//!
//! Most of these words have honest uses as well (to look up a name, memory in bytes, a timestamp), so the patterns name
//! the use that is meant: an identifier, or a noun with its article. Words within identifiers are searched for separately.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use super::identifiers;

/// Extended regular expressions over lines, and what to say instead.
const LINES: [(&str, &str); 44] = [
    (
        r"\b([Aa]|[Tt]he|this|[Ee]ach|[Ee]very|[Oo]ne|next|last|first|same|whole|another|[Nn]o|live|stale|later|any|new) look([^-a-z_ ]|$| [^u])",
        "reconcile, or read",
    ),
    (
        r"\b(waiting|scheduled|two|three|all|between|many|more|these|those|live|stale|other|further|later) looks\b",
        "reconciles, or reads",
    ),
    (r"\b[Ll]ook(s|ed|ing)?[ _]after\b", "reconcile, or manage"),
    (r"\b[Ll]ook(s|ed|ing)?[ _]again\b", "requeue, or retry"),
    (
        r"\bfn look\b|\.look\(|_looks\b|\bLook::|::Look\b|\bLooking::|(enum|struct) Look\b",
        "reconcile",
    ),
    (
        r"\b([Aa]|[Tt]he|this|[Ee]ach|[Ee]very|[Oo]ne|next|last|first|same|whole|another|[Nn]o|per|any|later|new|of) pass\b",
        "reconcile",
    ),
    (r"\b(the|of|many|two|all|several|how) passes\b", "reconciles"),
    (
        r"\bPassError\b|\bmod pass;|\bpass::|EveryPass\b",
        "reconcile, ReconcileError",
    ),
    (
        r"\bAgain::|(enum|struct) Again\b|\bDone::(Again|At|In)\b",
        "Requeue, Outcome",
    ),
    (r"\bAgenda\b|\bagenda\b", "WorkQueue"),
    (r"\bInbox\b|\binbox\b", "pending set"),
    (r"\bFollower\b|\bFeed\b", "informer, store writer"),
    (r"trait Listener\b|impl Listener<", "event handler"),
    (r"[Bb]elongings", "index by owner"),
    (r"\bFamily::Of|enum Family\b", "owner kind"),
    (r"\bWritten(::|<|;| \{|\})", "Expectations"),
    (r"[Cc]aught[_ ]up\b|\bCaughtUp\b", "satisfied"),
    (r"[Dd]istrust", "invalidated"),
    (r"\bAttempts(::|;| \{)", "Backoff"),
    (r"\b[Hh]old(s|ing)?_back\b|\bHoldBack\b", "throttle"),
    (r"\bRepairs(::|;| \{)", "drift limiter"),
    (
        r"\bMemories\b|\bMemory::|mut Memory\b|struct Memory\b|memory::Memory",
        "per-object state",
    ),
    (r"\b[Ww]ish(es|ed|ing)?\b|_wish\b|\bwish_", "desired state"),
    (r"\bWanted\b", "desired state"),
    (
        r"\bSight\b|struct Found\b|found::Found|\bFound::default",
        "observed state, comparison",
    ),
    (r"\bTerm::|struct Term\b|leader::Term\b|&'a Term\b", "leadership"),
    (
        r"\b(lease|leader)[^.]* terms?\b|\b(first|next|new|whole) term\b",
        "leadership, or lease",
    ),
    (r"\bTold\b", "event de-duplication"),
    (r"\bfn (tell|say)\b|\.(tell|say)\(|[^.a-z_]tell\(", "report, emit"),
    (r"\bJudge|cannot judge", "validator, validate"),
    (
        r"\b[Dd]esk\b|_desk\b|\bdesk_|\b[A-Z][a-z]+Desk\b",
        "admission handler, or hold queue",
    ),
    (r"\bTrouble\b", "lookup error, or the name of the error"),
    (r"[Rr]ehears", "dry run"),
    (r"[Oo]bjection", "cause reported by the API server"),
    (r"\bKeeper\b", "certificate controller"),
    (r"\b[Ss]eats?\b", "waiter guard"),
    (r"\b[Ee]ras?\b", "epoch"),
    (r"\b[Ss]trangers?\b", "unknown engine"),
    (r"\b[Bb]lind\b", "fail open"),
    (
        r"\b[Ss]tamp(s|ed|ing)?\b|_stamps?\b|\bstamp_|Stamp[A-Z]",
        "template-hash, config-hash or wake request",
    ),
    (r"[Ww]hat holds of\b", "current conditions of"),
    (r"Left out(: | or )", "defaults to"),
    (
        r"Generation [^ ]+ serves\.|a query asked for|rolls out: |stays while they need|did not agree on keys|Kubernetes does not take|leads now\b",
        "see the table in CONTRIBUTING.md, or what kubectl would say",
    ),
    (
        r"\b[Ww]hoever\b|\b[Nn]obody\b|\bawaited\b|takes? (its|their) time|\bturn(ed|s)? away\b|\bwritten down\b",
        "the client, user or process that is meant, or: waits for, is slow, rejected, recorded",
    ),
];

/// Names of files and folders (without `.rs` and `_tests`), and what to say instead.
const FILES: [(&[&str], &str); 5] = [
    (&["stage", "scene"], "testenv"),
    (
        &["mind", "spoilt", "birth", "the_end"],
        "rapid_edits, drifted_objects, provisioning, deletion",
    ),
    (&["pass", "memory", "memories"], "reconcile, state"),
    (
        &[
            "agenda",
            "inbox",
            "attempts",
            "repairs",
            "hold_back",
            "found",
            "family",
            "follow",
            "written",
        ],
        "queue, backoff, drift limiter, throttle, observed, owner, informer, expectations",
    ),
    (
        &[
            "desk",
            "trouble",
            "stamp",
            "stamping",
            "stranger",
            "strangers",
            "keeper",
            "judge",
            "rehearsal",
            "api_rehearsal",
        ],
        "what the vocabulary calls it",
    ),
];

/// Not ours, or about the words themselves. The changelog names what was renamed.
const EXCEPT: [&str; 8] = [
    ":!CHANGELOG.md",
    ":!Cargo.lock",
    ":!LICENSE",
    ":!crates/api/schema",
    ":!tools/*/go.*",
    ":!xtask/src/lint/identifiers.rs",
    ":!xtask/src/lint/words.rs",
    ":!*.svg",
];

/// A word that has a better one.
#[derive(Debug, PartialEq)]
pub(super) struct WordFinding {
    file: String,
    /// The line and its number, as `git grep` prints them. Empty if it is the name of the file.
    line: String,
    say: &'static str,
}

/// Such words anywhere in the repository, each with its remedy.
pub(super) fn faults(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    Ok(search(root, &[])?.iter().map(describe).collect())
}

/// Searches everything that is tracked or about to be, below these paths if any are named.
pub(super) fn search(root: &Path, paths: &[String]) -> Result<Vec<WordFinding>, Box<dyn Error>> {
    let mut found = Vec::new();
    let scope: Vec<&str> = paths.iter().map(String::as_str).chain(EXCEPT).collect();
    for (pattern, say) in LINES {
        let lines = super::git(
            root,
            &[&["grep", "--untracked", "-nIE", pattern, "--"][..], &scope].concat(),
        )?;
        found.extend(lines.lines().filter_map(|line| {
            let (file, line) = line.split_once(':')?;
            let (file, line) = (file.to_owned(), line.to_owned());
            Some(WordFinding { file, line, say })
        }));
    }
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard", "--"];
    let files = super::git(root, &[&arguments[..], &scope].concat())?;
    found.extend(files.lines().filter_map(|file| {
        let (file, line) = (file.to_owned(), String::new());
        name_to_replace(&file).map(|say| WordFinding { file, line, say })
    }));
    for file in files.lines() {
        let path = root.join(file);
        if path.extension().is_none_or(|extension| extension != "rs") || !path.is_file() {
            continue;
        }
        let identifiers = identifiers::search(&path)?;
        found.extend(identifiers.into_iter().map(|identifier| WordFinding {
            file: file.to_owned(),
            line: format!("{}: {}", identifier.line, identifier.name),
            say: identifier.say,
        }));
    }
    found.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(found)
}

fn name_to_replace(file: &str) -> Option<&'static str> {
    let mut names = file.split('/').map(|name| {
        let name = name.strip_suffix(".rs").unwrap_or(name);
        name.strip_suffix("_tests").unwrap_or(name)
    });
    let (_, say) = names.find_map(|name| FILES.iter().find(|(olds, _)| olds.contains(&name)))?;
    Some(say)
}

/// The number of finds by folder, and of all.
pub(super) fn table(found: &[WordFinding]) -> String {
    let mut folders: BTreeMap<String, usize> = BTreeMap::new();
    for find in found {
        *folders.entry(folder(&find.file)).or_default() += 1;
    }
    let mut text = String::new();
    for (folder, count) in folders {
        let _ = writeln!(text, "{count:>6}  {folder}");
    }
    let _ = writeln!(text, "{:>6}  in all", found.len());
    text
}

/// Each find with its remedy.
pub(super) fn list(found: &[WordFinding]) -> String {
    let mut text = String::new();
    for find in found {
        let _ = writeln!(text, "{}", describe(find));
    }
    text
}

fn describe(WordFinding { file, line, say }: &WordFinding) -> String {
    let line = if line.is_empty() {
        "(the name of the file)"
    } else {
        line
    };
    format!("{file}:{line}\n    use instead: {say}")
}

/// The part of the path that is counted together: a crate's `src` or `tests`, or the folder at the top.
fn folder(file: &str) -> String {
    let parts: Vec<&str> = file.split('/').collect();
    let depth = match parts[0] {
        "crates" => 3,
        "e2e" | "xtask" | "docs" => 2,
        _ => 1,
    };
    match depth.min(parts.len() - 1) {
        0 => ".".to_owned(),
        depth => parts[..depth].join("/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Whether the line has a word to replace.
    fn is_found(line: &str) -> bool {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("a.rs"), format!("{line}\n")).expect("a file");
        LINES.iter().any(|(pattern, _)| {
            let arguments = ["grep", "--no-index", "-nIE", pattern, "--", "a.rs"];
            !super::super::git(folder.path(), &arguments).expect("git").is_empty()
        })
    }

    #[test]
    fn words_of_the_old_dialect_are_found() {
        for line in [
            "/// One look at an engine.",
            "    a live look",
            "# HELP waiting looks",
            "Looks after all engines",
            "controller.look(&key)",
            "/// Decides on one pass.",
            "fn f() -> Result<(), PassError>",
            "let inbox = Inbox::default();",
            "the wish of the user",
            "use crate::leader::Term;",
            "pub(crate) fn tell(&self)",
            "webhook_rehearsals_total",
            "struct TestDesk {",
            "the stamp of the template",
            "    Left out: `5s`.",
            "Generation 1 serves.",
            "// Whoever waits for it",
            "each deletion is awaited",
            "a query that is turned away",
        ] {
            assert!(is_found(line), "{line}");
        }
    }

    #[test]
    fn honest_uses_of_the_same_words_are_not() {
        for line in [
            "/// Looks up a class by name.",
            "before the look-up of a name",
            "the look up of a name",
            "pub enum Lookup<T> {",
            "that looks the same",
            "a pod that passes `restricted`",
            "queries pass through Envoy",
            "memory: 4Gi, resources::Memory",
            "let memory = limits.memory;",
            "use prometheus_client::metrics::family::Family;",
            "ports of the IPv6 family",
            "let now = Timestamp::now();",
            "creationTimestamp: timestamp_of(pod)",
            "IsTerminal::new, long-term",
            "// Written by the API server.",
            "HTTP/1.1 302 Found",
            "struct NotFound;",
            "the first stage of a pipeline",
            "camera, general, several",
            "a Deployment rolls out new pods",
            "let answer = request.await;",
        ] {
            assert!(!is_found(line), "{line}");
        }
    }

    #[test]
    fn files_are_known_by_their_names() {
        assert!(name_to_replace("crates/operator/tests/api/stage.rs").is_some());
        assert!(name_to_replace("crates/operator/src/desk_tests.rs").is_some());
        assert!(name_to_replace("crates/operator/tests/api_rehearsal/main.rs").is_some());
        assert!(name_to_replace("crates/operator/src/engine/reconcile.rs").is_none());
        assert!(name_to_replace("docs/operations/stages.md").is_none());
    }

    #[test]
    fn finds_are_counted_by_folder() {
        let find = |file: &str| WordFinding {
            file: file.to_owned(),
            line: String::new(),
            say: "",
        };
        let found = [
            find("crates/api/src/a.rs"),
            find("crates/api/src/b/c.rs"),
            find("README.md"),
        ];
        assert_eq!(table(&found), "     1  .\n     2  crates/api/src\n     3  in all\n");
    }
}
