//! What is in each image.
//!
//! The closed-source images are played by the stand-ins. PostgreSQL and nginx are those of the Debian packages in the cache
//! of tools, whatever version the name of the image speaks of; Envoy is the one in the cache, which is of that version.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use localkube::tools::{Binary, Tools};
use serde_json::{Value, json};

use super::Result;
use super::archive::{Archive, Image};
use super::layer::Layer;
use super::names::{self, ImageNames};

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The users that containers run as. PostgreSQL does not start under a number without a name.
const USERS: [(&str, u32); 6] = [
    ("root", 0),
    ("postgres", 70),
    ("envoy", 101),
    ("metadata", 1111),
    ("firebolt", 3473),
    ("nonroot", 65532),
];

/// Where the programs are that go into images.
pub(super) struct Programs {
    operator: PathBuf,
    wake_agent: PathBuf,
    stand_in: PathBuf,
    envoy: PathBuf,
    /// A folder laid out like a system.
    debian: PathBuf,
}

impl Programs {
    /// Those that cargo built into a folder, and those of the cache.
    pub(super) fn find(built: &Path) -> Result<Self> {
        let tools = Tools::from_env()?;
        let debian = tools.debian();
        if !debian.exists() {
            return Err("the Debian packages are not there: run `make tools`".into());
        }
        Ok(Self {
            operator: built.join("firebolt-operator"),
            wake_agent: built.join("firebolt-wake-agent"),
            stand_in: built.join("firebolt-stand-in"),
            envoy: tools.binary(Binary::Envoy)?,
            debian,
        })
    }

    pub(super) fn operator(&self) -> &Path {
        &self.operator
    }

    /// Where Debian keeps PostgreSQL: in a folder that is named after the version.
    fn postgres(&self) -> Result<String> {
        let versions = "usr/lib/postgresql";
        let version = fs::read_dir(self.debian.join(versions))?
            .next()
            .ok_or("find PostgreSQL")??;
        Ok(format!("{versions}/{}", version.file_name().to_string_lossy()))
    }
}

/// Every archive.
pub(super) fn archives(programs: &Programs, names: &ImageNames) -> Result<Vec<Archive>> {
    let base = Rc::new(base(programs)?);
    let archive = |name, image: &str, layer: Layer, start: Value| Archive {
        name,
        images: vec![Image {
            name: image.to_owned(),
            layers: vec![Rc::clone(&base), Rc::new(layer)],
            start,
        }],
    };
    let mut ui = archive(
        "ui",
        &names.ui,
        self::ui(programs, &base)?,
        start(3473, &["nginx", "-e", "stderr"]),
    );
    ui.images.push(Image {
        name: names.pinned_ui.clone(),
        layers: ui.images[0].layers.clone(),
        start: ui.images[0].start.clone(),
    });
    Ok(vec![
        stand_ins(programs, names, &base),
        archive(
            "postgres",
            &names.postgres,
            postgres(programs, &base)?,
            start_postgres(&programs.postgres()?),
        ),
        archive("envoy", &names.envoy, envoy(programs)?, start(101, &["envoy"])),
        ui,
        archive(
            "operator",
            names::OPERATOR,
            program("firebolt-operator", &programs.operator),
            start(65532, &["firebolt-operator"]),
        ),
        archive(
            "wake-agent",
            &names.wake_agent,
            program("firebolt-wake-agent", &programs.wake_agent),
            start(65532, &["firebolt-wake-agent"]),
        ),
    ])
}

/// How a container starts that runs a program and needs nothing else.
fn start(user: u32, command: &[&str]) -> Value {
    json!({ "User": format!("{user}:{user}"), "Env": [PATH], "WorkingDir": "/", "Entrypoint": command })
}

/// What all images hold: a shell, the libraries of most programs, the users.
fn base(programs: &Programs) -> Result<Layer> {
    let mut layer = Layer::default();
    for name in ["bash", "sleep"] {
        layer.file(&format!("bin/{name}"), &Path::new("/bin").join(name))?;
        layer.libraries(&Path::new("/bin").join(name), None, None)?;
    }
    layer.link("bin/sh", "bash");
    let programs = [
        &programs.operator,
        &programs.wake_agent,
        &programs.stand_in,
        &programs.envoy,
    ];
    for program in programs {
        layer.libraries(program, None, None)?;
    }
    let lines = |line: fn((&str, u32)) -> String| USERS.map(line).concat();
    layer.text(
        "etc/passwd",
        0o644,
        &lines(|(name, id)| format!("{name}:x:{id}:{id}::/tmp:/bin/sh\n")),
    );
    layer.text("etc/group", 0o644, &lines(|(name, id)| format!("{name}:x:{id}:\n")));
    layer.text("etc/nsswitch.conf", 0o644, "hosts: files dns\n");
    layer.folder("tmp", 0o1777);
    Ok(layer)
}

/// The engine, twice, the metadata service, and what keeps a pod open. All but the last start by what the pod says.
fn stand_ins(programs: &Programs, names: &ImageNames, base: &Rc<Layer>) -> Archive {
    let mut layer = Layer::default();
    // The program chooses its part by the name that it is called by.
    layer.program("opt/firebolt/firebolt", &programs.stand_in);
    layer.link("dedicated-pensieve", "opt/firebolt/firebolt");
    let layers = vec![Rc::clone(base), Rc::new(layer)];
    let image = |name: &str, start: Value| Image {
        name: name.to_owned(),
        layers: layers.clone(),
        start,
    };
    // Only by its configuration is this one another image.
    let mut next = start(3473, &["/opt/firebolt/firebolt"]);
    next["Labels"] = json!({ "org.opencontainers.image.version": "next" });
    Archive {
        name: "stand-ins",
        images: vec![
            image(&names.engine, start(3473, &["/opt/firebolt/firebolt"])),
            image(&names.next_engine, next),
            image(&names.metadata, start(1111, &["/dedicated-pensieve"])),
            Image {
                name: names::PAUSE.to_owned(),
                layers: vec![Rc::clone(base)],
                start: start(65532, &["sleep", "infinity"]),
            },
        ],
    }
}

fn postgres(programs: &Programs, base: &Layer) -> Result<Layer> {
    let (debian, version) = (&programs.debian, programs.postgres()?);
    let mut layer = Layer::default();
    for program in ["initdb", "pg_isready", "postgres", "psql"] {
        let place = format!("{version}/bin/{program}");
        let source = debian.join(&place);
        layer.file(&place, &source)?;
        layer.libraries(&source, Some(debian), Some(base))?;
    }
    // Compiling queries needs a compiler, which is larger than all the rest; PostgreSQL does without.
    let skip = |name: &str| name == "bitcode" || name == "pgxs" || name.starts_with("llvmjit");
    let libraries = format!("{version}/lib");
    layer.tree(&libraries, &debian.join(&libraries), skip)?;
    // Manuals, and all time zones a second and a third time.
    let skip = |name: &str| ["man", "posix", "right"].contains(&name);
    for folder in ["usr/share/postgresql", "usr/share/zoneinfo", "usr/lib/locale/C.utf8"] {
        layer.tree(folder, &debian.join(folder), skip)?;
    }
    layer.text(
        "usr/local/bin/docker-entrypoint.sh",
        0o755,
        include_str!("postgres-entrypoint.sh"),
    );
    layer.folder("var/lib/postgresql/data", 0o1777);
    layer.folder("var/run/postgresql", 0o1777);
    Ok(layer)
}

fn start_postgres(version: &str) -> Value {
    let mut start = start(70, &["docker-entrypoint.sh"]);
    start["Env"] = json!([
        format!("{PATH}:/{version}/bin"),
        "LANG=C.UTF-8",
        "PGDATA=/var/lib/postgresql/data"
    ]);
    start["Cmd"] = json!(["postgres"]);
    // Ends connections, where the usual signal waits for clients to do so.
    start["StopSignal"] = json!("SIGINT");
    start
}

fn envoy(programs: &Programs) -> Result<Layer> {
    let mut layer = Layer::default();
    layer.file("usr/local/bin/envoy", &programs.envoy)?;
    Ok(layer)
}

fn ui(programs: &Programs, base: &Layer) -> Result<Layer> {
    let mut layer = Layer::default();
    let nginx = programs.debian.join("usr/sbin/nginx");
    layer.file("usr/sbin/nginx", &nginx)?;
    layer.libraries(&nginx, Some(&programs.debian), Some(base))?;
    layer.text("etc/nginx/nginx.conf", 0o644, include_str!("nginx.conf"));
    Ok(layer)
}

/// One of our own programs.
fn program(name: &str, file: &Path) -> Layer {
    let mut layer = Layer::default();
    layer.program(&format!("usr/local/bin/{name}"), file);
    layer
}
