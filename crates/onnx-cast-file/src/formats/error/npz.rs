//! What can be wrong with an archive of arrays.

use crate::text::Short;
use thiserror::Error;

/// An archive that cannot be read here, or is not what numpy writes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NpzError {
    /// Not a zip archive, or a damaged one.
    #[error("the archive is not valid: {what}")]
    Archive {
        /// What the reader of archives says.
        what: String,
    },
    /// A member that is not an array.
    #[error("member `{}` is not an array (want a name that ends in .npy)", Short(member))]
    Member {
        /// The member.
        member: String,
    },
    /// A member that is neither stored nor deflated, or is encrypted.
    #[error("member `{}` is encrypted or not compressed by deflate, which is not read", Short(member))]
    Method {
        /// The member.
        member: String,
    },
}
