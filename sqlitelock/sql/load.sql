SELECT touched, listed, token, holds FROM resources WHERE resource = ?
