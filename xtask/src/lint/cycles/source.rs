//! The modules of a crate, read from its source files: what each declares, imports and mentions.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::TokenStream;

use super::tokens::{self, Found, PathSegments};

/// More steps through re-exports than any crate has: what is left is a loop.
const MOST_STEPS: usize = 20;

/// One module uses another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Use {
    pub(super) from: PathSegments,
    pub(super) to: PathSegments,
    pub(super) file: PathBuf,
    pub(super) line: usize,
}

#[derive(Default)]
struct Module {
    file: PathBuf,
    /// What is defined here, by its name.
    items: BTreeSet<String>,
    /// What is imported here, by its name.
    imports: BTreeMap<String, PathSegments>,
    /// Modules of which everything is imported.
    globs: Vec<PathSegments>,
    /// Paths that begin at the root of the crate, and the lines they are on.
    paths: Vec<(PathSegments, usize)>,
    /// Paths that begin with a name of this module, and the lines they are on.
    relative: Vec<(PathSegments, usize)>,
}

/// The modules of a crate, test code left out.
pub(super) struct Crate {
    modules: BTreeMap<PathSegments, Module>,
}

impl Crate {
    /// Reads the crate whose root is this file.
    pub(super) fn read(root: &Path) -> Result<Self, Box<dyn Error>> {
        let mut source = Self {
            modules: BTreeMap::new(),
        };
        let folder = root.parent().unwrap_or(Path::new("."));
        source.read_file(root, folder, &[])?;
        Ok(source)
    }

    /// Reads a module and those that it declares. Their files are in `folder`.
    fn read_file(&mut self, file: &Path, folder: &Path, name: &[String]) -> Result<(), Box<dyn Error>> {
        let text = fs::read_to_string(file).map_err(|error| format!("read {}: {error}", file.display()))?;
        let tokens: TokenStream = text
            .parse()
            .map_err(|error| format!("read {}: {error}", file.display()))?;
        self.add(file, folder, name, tokens)
    }

    fn add(&mut self, file: &Path, folder: &Path, name: &[String], tokens: TokenStream) -> Result<(), Box<dyn Error>> {
        let mut module = Module {
            file: file.to_owned(),
            ..Module::default()
        };
        let found = tokens::read(tokens);
        let declared = found.iter().filter_map(|found| match found {
            Found::Module { name, .. } => Some(name.clone()),
            Found::Item(_) | Found::Import { .. } | Found::Glob { .. } | Found::Path { .. } => None,
        });
        let declared: BTreeSet<String> = declared.collect();
        let absolute = |path: &PathSegments| absolute(name, &declared, path);
        let mut children = Vec::new();
        for found in found {
            match found {
                Found::Item(item) => drop(module.items.insert(item)),
                Found::Import { name, path, line } => {
                    if let Some(path) = absolute(&path) {
                        module.paths.push((path.clone(), line));
                        module.imports.insert(name, path);
                    }
                }
                Found::Glob { path, line } => {
                    if let Some(path) = absolute(&path) {
                        module.paths.push((path.clone(), line));
                        module.globs.push(path);
                    }
                }
                Found::Path { path, line } => match absolute(&path) {
                    Some(path) => module.paths.push((path, line)),
                    None => module.relative.push((path, line)),
                },
                Found::Module { name, body } => children.push((name, body)),
            }
        }
        self.modules.insert(name.to_owned(), module);
        for (child, body) in children {
            let folder = folder.join(&child);
            let path: PathSegments = [name, &[child]].concat();
            match body {
                Some(tokens) => self.add(file, &folder, &path, tokens)?,
                None => self.read_file(&file_of(&folder), &folder, &path)?,
            }
        }
        Ok(())
    }

    /// Every use of a module of this crate by another.
    pub(super) fn uses(&self) -> Vec<Use> {
        let mut uses = Vec::new();
        for (from, module) in &self.modules {
            let relative = module.relative.iter().filter_map(|(path, line)| {
                // The import itself counts already, unless it is of a module that contains this one.
                let imported = module.imports.get(&path[0])?;
                let path = [imported, &path[1..]].concat();
                from.starts_with(&self.module_of(imported)).then_some((path, *line))
            });
            for (path, line) in module.paths.iter().cloned().chain(relative) {
                let to = self.module_of(&path);
                if to != *from {
                    uses.push(Use {
                        from: from.clone(),
                        to,
                        file: module.file.clone(),
                        line,
                    });
                }
            }
        }
        uses
    }

    /// The module that has what the path leads to, re-exports followed.
    fn module_of(&self, path: &[String]) -> PathSegments {
        self.follow(path, 0)
    }

    fn follow(&self, path: &[String], step: usize) -> PathSegments {
        let mut here: PathSegments = Vec::new();
        for (at, name) in path.iter().enumerate() {
            let child: PathSegments = [&here[..], std::slice::from_ref(name)].concat();
            if self.modules.contains_key(&child) {
                here = child;
                continue;
            }
            let module = &self.modules[&here];
            let rest = &path[at + 1..];
            if step < MOST_STEPS && !module.items.contains(name) {
                if let Some(imported) = module.imports.get(name) {
                    return self.follow(&[imported, rest].concat(), step + 1);
                }
                for glob in &module.globs {
                    let within = self.follow(glob, step + 1);
                    let there = self.modules.get(&within);
                    if there.is_some_and(|there| there.items.contains(name) || there.imports.contains_key(name)) {
                        return self.follow(&[&within[..], &path[at..]].concat(), step + 1);
                    }
                }
            }
            break;
        }
        here
    }
}

/// The path from the root of the crate, if it leads into this crate for sure.
fn absolute(module: &[String], declared: &BTreeSet<String>, path: &[String]) -> Option<PathSegments> {
    let first = path.first()?;
    let supers = path.iter().take_while(|word| *word == "super").count();
    let (base, rest) = match first.as_str() {
        "crate" => (&[][..], &path[1..]),
        "self" => (module, &path[1..]),
        "super" => (&module[..module.len().checked_sub(supers)?], &path[supers..]),
        name if declared.contains(name) => (module, path),
        _ => return None,
    };
    Some([base, rest].concat())
}

/// The file of the module whose children are in `folder`.
fn file_of(folder: &Path) -> PathBuf {
    let beside = folder.with_extension("rs");
    if beside.exists() { beside } else { folder.join("mod.rs") }
}
