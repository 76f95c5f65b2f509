// Questions to the server, or to the files of an export. Every failure is an Error whose message is
// a sentence for the reader.

/** @param {Response} response @param {string} what @returns {Promise<Response>} */
async function checked(response, what) {
  if (response.ok) return response;
  let sentence = `${what} could not be read (status ${response.status})`;
  try {
    const body = await response.json();
    if (typeof body.error === "string") sentence = body.error;
  } catch {
    // Not ours: a plain web server's page about the missing file.
  }
  throw new Error(sentence);
}

/** @param {string} path @param {string} what @param {RequestInit} [options] */
async function ask(path, what, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error(`${what} could not be read: the server does not answer`);
  }
  return checked(response, what);
}

/** @param {string} path @param {string} what @returns {Promise<any>} */
export async function getJson(path, what) {
  const response = await ask(path, what);
  try {
    return await response.json();
  } catch {
    throw new Error(`${what} could not be read: it is not what an explorer writes`);
  }
}

/** @param {string} path @param {string} what @returns {Promise<Uint8Array<ArrayBuffer>>} */
export async function getBytes(path, what) {
  return new Uint8Array(await (await ask(path, what)).arrayBuffer());
}

/** @param {string} path @param {string} what @param {BodyInit} body */
export async function post(path, what, body) {
  const options = { method: "POST", body, headers: { "Content-Type": "application/octet-stream" } };
  return (await ask(path, what, options)).arrayBuffer();
}
