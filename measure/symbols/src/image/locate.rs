//! Finds files: the image that ran, and its debug file.
//!
//! | file  | asked, in this order |
//! |-------|----------------------|
//! | image | sysroot + path; path; the running process's view (`/proc`); perf's build-id cache; debuginfod |
//! | debug | `DIR/.build-id/ab/cdef.debug`; the `.gnu_debuglink` beside it, in `.debug`, in `DIR`; debuginfod |
//!
//! Each candidate must be of the right build, by build id or by the checksum of the debug link.

use super::bytes::ImageBytes;
use super::{check_build, Image, ImageError};
use crate::address_spaces::ImageDescription;
use crate::build_id::BuildId;
use object::Object;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The places to search.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locator {
    pub(crate) debug_directories: Vec<PathBuf>,
    pub(crate) allow_debuginfod: bool,
    pub(crate) sysroot: Option<PathBuf>,
}

/// An image that was found.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Arc<ImageBytes>,
}

impl Locator {
    /// The file of an image. On failure, the most informative reason: another build rather than a missing file.
    pub(crate) fn image_file(
        &self,
        image: &ImageDescription,
        expected: Option<&BuildId>,
    ) -> Result<Found, ImageError> {
        let mut reason: Option<ImageError> = None;
        for path in self.image_candidates(image, expected) {
            match Image::open(&path, expected) {
                Ok(bytes) => return Ok(Found { path, bytes }),
                Err(error) => {
                    let replaces = match (&reason, &error) {
                        (None, _) => true,
                        (Some(ImageError::OtherBuild { .. }), _) => false,
                        (Some(_), ImageError::OtherBuild { .. }) => true,
                        _ => false,
                    };
                    if replaces {
                        reason = Some(error);
                    }
                }
            }
        }
        if let Some(path) = expected.and_then(|id| self.debuginfod("executable", id)) {
            match Image::open(&path, expected) {
                Ok(bytes) => return Ok(Found { path, bytes }),
                Err(error) => reason = reason.or(Some(error)),
            }
        }
        Err(reason.unwrap_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound).into()))
    }

    fn image_candidates(&self, image: &ImageDescription, expected: Option<&BuildId>) -> Vec<PathBuf> {
        let path = Path::new(&image.path);
        let mut candidates = Vec::new();
        if let Some(sysroot) = &self.sysroot {
            candidates.push(below(sysroot, path));
        }
        // A file at the path of a deleted one is usually its successor; and a sysroot means that the capture is of
        // another machine. In these cases this machine's file is accepted only with a matching build id.
        let trust_path = !image.deleted && self.sysroot.is_none();
        if trust_path || expected.is_some() {
            candidates.push(path.to_owned());
        }
        let (pid, start, end) = image.first_mapping;
        if pid.0 > 0 {
            // The pid may belong to an unrelated later process: its link must lead to that path.
            let by_mapping = PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
            let leads_there = std::fs::read_link(&by_mapping).is_ok_and(|target| {
                let target = target.as_os_str().as_bytes();
                target.strip_suffix(b" (deleted)").unwrap_or(target) == image.path.as_bytes()
            });
            if leads_there {
                candidates.push(by_mapping);
            }
            // A file in a container: accepted only with a matching build id.
            if expected.is_some() {
                candidates.push(below(Path::new(&format!("/proc/{pid}/root")), path));
            }
        }
        if let (Some(id), Some(home)) = (expected, std::env::var_os("HOME")) {
            candidates.push(id.path_below(&Path::new(&home).join(".debug/.build-id"), "/elf"));
        }
        candidates
    }

    /// The separate debug file of an image.
    pub(crate) fn debug_file(
        &self,
        image_path: &Path,
        image: &object::File<'_>,
        build_id: Option<&BuildId>,
    ) -> Option<(PathBuf, Arc<ImageBytes>)> {
        if let Some(id) = build_id {
            for directory in &self.debug_directories {
                let path = id.path_below(&directory.join(".build-id"), ".debug");
                if let Some(bytes) = open_of_build(&path, id) {
                    return Some((path, bytes));
                }
            }
        }
        if let Some(found) = self.linked_debug_file(image_path, image, build_id) {
            return Some(found);
        }
        let id = build_id?;
        let path = self.debuginfod("debuginfo", id)?;
        let bytes = open_of_build(&path, id)?;
        Some((path, bytes))
    }

    /// The file named by `.gnu_debuglink`, proven by the checksum there.
    fn linked_debug_file(
        &self,
        image_path: &Path,
        image: &object::File<'_>,
        build_id: Option<&BuildId>,
    ) -> Option<(PathBuf, Arc<ImageBytes>)> {
        let (name, checksum) = image.gnu_debuglink().ok()??;
        let name = Path::new(OsStr::from_bytes(name));
        // A debug link is a bare file name; a path would leave the searched directories.
        if name.file_name() != Some(name.as_os_str()) {
            return None;
        }
        let directory = image_path.parent()?;
        let mut candidates = vec![directory.join(name), directory.join(".debug").join(name)];
        candidates.extend(self.debug_directories.iter().map(|debug| below(debug, directory).join(name)));
        for path in candidates {
            if path == image_path {
                continue;
            }
            let Ok(bytes) = ImageBytes::open(&path) else { continue };
            // If both have a build id, compare these; the checksum would need the whole file.
            let same = match (build_id, build_id_of(&bytes)) {
                (Some(own), Some(other)) => own.is_same_build(&other),
                _ => crc32fast::hash(&bytes) == checksum,
            };
            if same {
                return Some((path, Arc::new(bytes)));
            }
            log::debug!("{} is not a debug file of {}", path.display(), image_path.display());
        }
        None
    }

    /// The supplementary file (`.gnu_debugaltlink`, made by dwz) of a debug file.
    pub(crate) fn supplementary_file(&self, debug_path: &Path) -> Option<PathBuf> {
        let bytes = ImageBytes::open(debug_path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let (name, id) = file.gnu_debugaltlink().ok()??;
        let id = BuildId::new(id)?;
        let by_name = debug_path.parent()?.join(OsStr::from_bytes(name));
        let by_id = self.debug_directories.iter().map(|dir| id.path_below(&dir.join(".build-id"), ".debug"));
        by_id.chain([by_name]).find(|path| open_of_build(path, &id).is_some())
    }

    /// Queries a debuginfod server with elfutils' client, which handles caches, proxies and timeouts.
    fn debuginfod(&self, kind: &str, id: &BuildId) -> Option<PathBuf> {
        if !self.allow_debuginfod || std::env::var_os("DEBUGINFOD_URLS").is_none_or(|urls| urls.is_empty()) {
            return None;
        }
        let mut command = Command::new("debuginfod-find");
        command.args([kind, &id.to_string()]).stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().map_err(|error| log::debug!("debuginfod-find: {error}")).ok()?;
        let path = output.stdout.strip_suffix(b"\n").unwrap_or(&output.stdout);
        (output.status.success() && !path.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(path)))
    }
}

fn open_of_build(path: &Path, id: &BuildId) -> Option<Arc<ImageBytes>> {
    let bytes = ImageBytes::open(path).ok()?;
    check_build(&bytes, Some(id)).ok()?;
    Some(Arc::new(bytes))
}

fn build_id_of(bytes: &ImageBytes) -> Option<BuildId> {
    object::File::parse(&**bytes).ok()?.build_id().ok()?.and_then(BuildId::new)
}

/// An absolute path below another root.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
