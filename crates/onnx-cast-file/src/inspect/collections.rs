//! Folders of several checkpoints, compared folder by folder.

use super::{DiffRequest, Difference, InspectRequest, diff_checkpoints, inspect_checkpoint};
use crate::collection::{Collection, Member};
use crate::error::FileError;

/// Compares the folders of one name. A folder that only one side has is named by its tensors.
pub(super) fn diff(
    [first, second]: &[Collection; 2],
    request: &DiffRequest,
) -> Result<Vec<(String, Difference)>, FileError> {
    let is_known = |all: &Collection| all.check_names(&request.include, &request.exclude);
    is_known(first).or_else(|error| is_known(second).map_err(|_| error))?;
    let mut differences = Vec::new();
    for member in first.checkpoints() {
        let Some(other) = second.checkpoint(member.name()) else {
            differences.extend(only(member, request, Difference::OnlyFirst)?);
            continue;
        };
        let [include, exclude] = [&request.include, &request.exclude].map(|patterns| member.patterns(patterns));
        let request = request.clone().include(include).exclude(exclude);
        let found = diff_checkpoints([member.path(), other.path()], &request)?;
        differences.extend(found.into_iter().map(|(name, difference)| (member.name_of(&name), difference)));
    }
    for member in second.checkpoints().filter(|member| first.checkpoint(member.name()).is_none()) {
        differences.extend(only(member, request, Difference::OnlySecond)?);
    }
    Ok(differences)
}

/// The tensors of a folder, each with what is said of it.
fn only(
    member: &Member,
    request: &DiffRequest,
    difference: Difference,
) -> Result<Vec<(String, Difference)>, FileError> {
    let [include, exclude] = [&request.include, &request.exclude].map(|patterns| member.patterns(patterns));
    let found = inspect_checkpoint(member.path(), &InspectRequest::default().include(include).exclude(exclude))?;
    Ok(found.tensors.iter().map(|tensor| (member.name_of(&tensor.name), difference.clone())).collect())
}
