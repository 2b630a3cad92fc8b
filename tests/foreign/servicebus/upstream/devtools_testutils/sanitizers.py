def _nothing(**_):
    pass


add_remove_header_sanitizer = add_general_regex_sanitizer = add_oauth_response_sanitizer = _nothing
