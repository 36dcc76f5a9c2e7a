//! Images as archives that every container runtime imports: layers, a configuration for each image, and a list of both.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::{Value, json};

use super::layer::Layer;
use super::tar::Writer;
use super::{Result, digests};

/// Part of every description. Raise it when archives are written in another way, so that old ones are not taken for new.
const RECIPE: &str = "2";

/// An image under its name.
pub(super) struct Image {
    pub(super) name: String,
    /// From the lowest on.
    pub(super) layers: Vec<Rc<Layer>>,
    /// How containers are started: `Entrypoint`, `Cmd`, `Env`, `User` and so on.
    pub(super) start: Value,
}

/// Images that are made and imported together, because they share most of what they hold.
pub(super) struct Archive {
    pub(super) name: &'static str,
    pub(super) images: Vec<Image>,
}

impl Archive {
    /// Where the archive is in a folder of archives.
    pub(super) fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.tar", self.name))
    }

    /// Writes the archive unless it is current; returns whether it had to be written. Its inputs are noted beside it.
    pub(super) fn ensure(&self, folder: &Path) -> Result<bool> {
        let inputs = folder.join(format!("{}.inputs", self.name));
        let description = self.describe()?;
        let archive = self.path(folder);
        if archive.exists() && fs::read_to_string(&inputs).is_ok_and(|text| text == description) {
            return Ok(false);
        }
        // An interrupted run leaves an archive without its inputs, which is written again.
        if inputs.exists() {
            fs::remove_file(&inputs)?;
        }
        // Of a name of its own, so that the next try clears what an interrupted one left.
        let work = folder.join(format!("{}.unfinished", self.name));
        if work.exists() {
            fs::remove_dir_all(&work)?;
        }
        fs::create_dir(&work)?;
        let unfinished = work.join("archive");
        self.write(&unfinished, &work)?;
        fs::rename(unfinished, archive)?;
        fs::remove_dir_all(work)?;
        fs::write(inputs, description)?;
        Ok(true)
    }

    fn describe(&self) -> Result<String> {
        let mut text = format!("recipe {RECIPE}\n");
        for layer in self.layers() {
            text.push_str(&layer.describe()?);
        }
        for image in &self.images {
            let layers: Vec<_> = image.layers.iter().map(|layer| self.index(layer)).collect();
            writeln!(text, "image {} {layers:?} {}", image.name, image.start)?;
        }
        Ok(text)
    }

    /// Each layer once.
    fn layers(&self) -> Vec<&Rc<Layer>> {
        let mut layers: Vec<&Rc<Layer>> = Vec::new();
        for layer in self.images.iter().flat_map(|image| &image.layers) {
            if !layers.iter().any(|known| Rc::ptr_eq(known, layer)) {
                layers.push(layer);
            }
        }
        layers
    }

    fn index(&self, layer: &Rc<Layer>) -> Option<usize> {
        self.layers().into_iter().position(|known| Rc::ptr_eq(known, layer))
    }

    /// Writes the archive, with files of its own in `work` on the way.
    fn write(&self, to: &Path, work: &Path) -> Result<()> {
        let mut writer = Writer::new(BufWriter::new(File::create(to)?));
        let mut layers = Vec::new();
        for (index, layer) in self.layers().into_iter().enumerate() {
            let file = work.join(format!("layer{index}"));
            layer.write(&file)?;
            let digest = digests([file.as_path()])?.concat();
            writer.file(&format!("{digest}.tar"), 0o644, &file)?;
            layers.push(digest);
        }
        let mut list = Vec::new();
        for image in &self.images {
            let indices = image.layers.iter().filter_map(|layer| self.index(layer));
            let layers: Vec<&String> = indices.map(|index| &layers[index]).collect();
            let configuration = work.join("configuration");
            fs::write(&configuration, configure(&image.start, &layers).to_string())?;
            let name = format!("{}.json", digests([configuration.as_path()])?.concat());
            writer.file(&name, 0o644, &configuration)?;
            let layers: Vec<String> = layers.iter().map(|digest| format!("{digest}.tar")).collect();
            list.push(json!({ "Config": name, "RepoTags": [image.name], "Layers": layers }));
        }
        writer.bytes("manifest.json", 0o644, Value::Array(list).to_string().as_bytes())?;
        Ok(writer.finish()?)
    }
}

fn configure(start: &Value, layers: &[&String]) -> Value {
    let layers: Vec<String> = layers.iter().map(|digest| format!("sha256:{digest}")).collect();
    json!({
        "architecture": match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        },
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": start,
        "rootfs": { "type": "layers", "diff_ids": layers },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn image(name: &str, layers: &[&Rc<Layer>]) -> Image {
        Image {
            name: name.to_owned(),
            layers: layers.iter().map(|layer| Rc::clone(layer)).collect(),
            start: json!({ "Entrypoint": ["/a"], "Labels": { "name": name } }),
        }
    }

    fn layer(text: &str) -> Rc<Layer> {
        let mut layer = Layer::default();
        layer.text("etc/text", 0o644, text);
        Rc::new(layer)
    }

    fn archive(text: &str) -> Archive {
        let (base, top) = (layer("base"), layer(text));
        Archive {
            name: "test",
            images: vec![image("a:1", &[&base, &top]), image("b:1", &[&base])],
        }
    }

    fn unpack(archive: &Path, to: &Path) {
        let tar = Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(to).status();
        assert!(tar.expect("run tar").success());
    }

    #[test]
    fn an_archive_holds_all_that_it_lists_under_the_right_digests() {
        let folder = tempfile::tempdir().expect("create a folder");
        let archive = archive("top");
        assert!(archive.ensure(folder.path()).expect("write the archive"));
        unpack(&archive.path(folder.path()), folder.path());
        let read = |name: &str| -> Value {
            let text = fs::read_to_string(folder.path().join(name)).expect("the file is there");
            serde_json::from_str(&text).expect("JSON")
        };
        let digest = |name: &str| {
            digests([folder.path().join(name).as_path()])
                .expect("a digest")
                .concat()
        };

        let list = read("manifest.json");
        assert_eq!(
            (&list[0]["RepoTags"][0], &list[1]["RepoTags"][0]),
            (&json!("a:1"), &json!("b:1"))
        );
        assert_eq!(list[0]["Layers"][0], list[1]["Layers"][0]);
        assert_eq!(list[1]["Layers"].as_array().map(Vec::len), Some(1));
        for image in list.as_array().expect("a list") {
            let name = image["Config"].as_str().expect("a name");
            assert_eq!(name, format!("{}.json", digest(name)));
            let configuration = read(name);
            assert_eq!(configuration["config"]["Labels"]["name"], image["RepoTags"][0]);
            let layers = image["Layers"].as_array().expect("a list").iter();
            let of_layers: Vec<String> = layers
                .map(|layer| format!("sha256:{}", digest(layer.as_str().expect("a name"))))
                .collect();
            assert_eq!(configuration["rootfs"]["diff_ids"], json!(of_layers));
        }
    }

    #[test]
    fn the_same_contents_give_the_same_bytes() {
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().expect("create a folder"));
        let bytes = |folder: &tempfile::TempDir| {
            let archive = archive("top");
            archive.ensure(folder.path()).expect("write the archive");
            fs::read(archive.path(folder.path())).expect("read the archive")
        };
        assert_eq!(bytes(&one), bytes(&other));
    }

    #[test]
    fn an_archive_is_written_again_only_if_something_changed() {
        let folder = tempfile::tempdir().expect("create a folder");
        let mut ensure = |text: &str| archive(text).ensure(folder.path()).expect("write the archive");
        assert_eq!(
            ["one", "one", "two", "two"].map(&mut ensure),
            [true, false, true, false]
        );
        fs::remove_file(archive("two").path(folder.path())).expect("remove the archive");
        assert!(archive("two").ensure(folder.path()).expect("write the archive"));
    }
}
